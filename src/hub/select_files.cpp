#include "hub/select_files.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "hub/model_name.h"

namespace octavo::hub {
namespace {

constexpr const char* kSingleWeightFile = "model.safetensors";
constexpr std::string_view kDefaultQuantisations[] = {"Q4_K_M", "Q8_0"};

// Names in an error.
constexpr size_t kMaxListed = 20;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool contains(FileNames names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// --- GGUF ---

bool is_gguf(std::string_view name) {
  return upper(name).ends_with(".GGUF");
}

// Files beside a model that are none themselves: vision projectors, importance matrices.
bool is_side_file(std::string_view name) {
  const std::string base = upper(base_name(name));
  return base.find("MMPROJ") != std::string::npos || base.find("IMATRIX") != std::string::npos;
}

// "model-00002-of-00003.gguf": part 2 of 3 of "model"
struct Split {
  std::string_view stem;
  int index = 1;
  int count = 1;
};

Split parse_split(std::string_view name) {
  constexpr std::string_view kForm = "-00001-of-00003.gguf";
  const Split whole{name, 1, 1};
  if (name.size() <= kForm.size()) return whole;
  const std::string_view tail = name.substr(name.size() - kForm.size());
  Split split{name.substr(0, name.size() - kForm.size()), 0, 0};
  const auto number = [&](size_t at, int& value) {
    const char* const begin = tail.data() + at;
    return std::from_chars(begin, begin + 5, value).ptr == begin + 5;
  };
  const bool well_formed = tail[0] == '-' && number(1, split.index) &&
                           tail.substr(6, 4) == "-of-" && number(10, split.count) && is_gguf(tail);
  return well_formed && split.index >= 1 && split.index <= split.count ? split : whole;
}

// Whether a path has `quantisation` (in upper case) as a part of its own: Q4_K is none of
// "model-Q4_K_M.gguf".
bool has_quantisation(std::string_view path, const std::string& quantisation) {
  const std::string text = upper(path);
  constexpr std::string_view kBefore = "-._/";
  constexpr std::string_view kAfter = "-./";
  for (size_t at = text.find(quantisation); at != std::string::npos;
       at = text.find(quantisation, at + 1)) {
    const size_t end = at + quantisation.size();
    const bool begins = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
    const bool ends = end < text.size() && kAfter.find(text[end]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    text += format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  return text + (names.size() > kMaxListed ? ", …" : "");
}

// All parts of the file that `name` is a part of.
Result<std::vector<std::string>> all_parts(FileNames names, const std::string& name,
                                           const std::string& repo) {
  const Split split = parse_split(name);
  if (split.count == 1) return std::vector<std::string>{name};
  std::vector<std::string> parts;
  for (int i = 1; i <= split.count; ++i) {
    parts.push_back(format("{}-{:05}-of-{:05}.gguf", split.stem, i, split.count));
    if (!contains(names, parts.back())) {
      return not_found(format("{}: {} is missing, a part of a split model", repo, parts.back()));
    }
  }
  return parts;
}

}  // namespace

bool has_safetensors(FileNames names) {
  return contains(names, "config.json") &&
         (contains(names, kSingleWeightFile) || contains(names, kWeightIndexFile));
}

std::vector<std::string> select_description(FileNames names) {
  std::vector<std::string> selected;
  for (const std::string& name : names) {
    const bool at_root = name.find('/') == std::string::npos;
    const bool wanted = name.ends_with(".json") || name.ends_with(".jinja") ||
                        name == "tokenizer.model" || name == "merges.txt" || name == "vocab.txt";
    if (at_root && wanted) selected.push_back(name);
  }
  return selected;
}

Result<std::vector<std::string>> select_weights(FileNames names, std::string_view index_json,
                                                const std::string& repo) {
  std::set<std::string> selected;
  if (index_json.empty()) {
    selected.insert(kSingleWeightFile);
  } else {
    const std::string source = format("{}: {}", repo, kWeightIndexFile);
    const Json index = OCTAVO_TRY(parse_json(index_json, source));
    const Json* map = json_find(index, "weight_map");
    if (map == nullptr || !map->is_object() || map->get_object().empty()) {
      return data_loss(format("{}: 'weight_map' must be an object", source));
    }
    for (const auto& item : map->get_object()) {
      if (!item.value().is_string()) {
        return data_loss(format("{}: 'weight_map' must hold names of files", source));
      }
      selected.emplace(to_view(item.value().get_string()));
    }
  }
  for (const std::string& name : selected) {
    if (!contains(names, name)) {
      return not_found(format("{}: the file {} is missing, which holds weights", repo, name));
    }
  }
  return std::vector<std::string>(selected.begin(), selected.end());
}

Result<std::vector<std::string>> select_gguf(FileNames names, std::string_view wanted,
                                             const std::string& repo) {
  std::vector<std::string> models;  // whole files, and the first parts of split ones
  for (const std::string& name : names) {
    if (!is_gguf(name)) continue;
    if (!wanted.empty() && (name == wanted || base_name(name) == wanted)) {
      return all_parts(names, name, repo);
    }
    if (!is_side_file(name) && parse_split(name).index == 1) models.push_back(name);
  }
  if (models.empty()) {
    return not_found(format(
        "{}: it has neither safetensors nor a GGUF file, the formats that octavo reads", repo));
  }
  std::vector<std::string> matching;
  const auto match = [&](std::string_view quantisation) {
    for (const std::string& name : models) {
      if (has_quantisation(name, upper(quantisation))) matching.push_back(name);
    }
  };
  if (wanted.empty()) {
    for (const std::string_view quantisation : kDefaultQuantisations) {
      if (matching.empty()) match(quantisation);
    }
    return all_parts(names, matching.empty() ? models[0] : matching[0], repo);
  }
  match(wanted);
  if (matching.empty()) {
    return not_found(
        format("{}: it has no GGUF file of '{}', but {}", repo, wanted, listed(models)));
  }
  if (matching.size() > 1) {
    return invalid_argument(
        format("{}: several GGUF files are of '{}', name one: {}", repo, wanted, listed(matching)));
  }
  return all_parts(names, matching[0], repo);
}

}  // namespace octavo::hub
