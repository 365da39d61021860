#include "formats/gguf_split.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "formats/mmap_file.h"

namespace octavo::formats {
namespace {

constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kIndexKey = "split.no";
constexpr std::string_view kTensorsKey = "split.tensors.count";

// What the file name of a part says.
struct PartName {
  std::string prefix;
  int64_t number;  // from 1 on
  int64_t count;
};

std::string part_path(const std::string& prefix, int64_t number, int64_t count) {
  return format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

std::optional<PartName> parse_part_name(const std::string& path) {
  constexpr size_t kDigits = 5;
  const size_t tail_bytes = part_path("", 1, 1).size();
  if (path.size() < tail_bytes) return std::nullopt;
  const size_t tail = path.size() - tail_bytes;
  const std::string number = path.substr(tail + 1, kDigits);
  const std::string count = path.substr(tail + kDigits + 5, kDigits);  // behind "-of-"
  for (const std::string& digits : {number, count}) {
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  }
  PartName name{path.substr(0, tail), std::stoll(number), std::stoll(count)};
  if (part_path(name.prefix, name.number, name.count) != path) return std::nullopt;
  return name;
}

// A number of the file's metadata, nullopt where there is none.
Result<std::optional<int64_t>> split_number(const GgufCheckpoint& file, std::string_view key) {
  const Json* value = json_find(file.metadata(), key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!value->is_int64() || value->get_int64() < 0) {
    return data_loss(format("{}: key '{}' must be a number, at least 0", file.path(), key));
  }
  return std::optional<int64_t>(value->get_int64());
}

// Errors unless the file's key says what its name, and the other parts, say.
Status check_number(const GgufCheckpoint& file, std::string_view key, int64_t expected) {
  const std::optional<int64_t> found = OCTAVO_TRY(split_number(file, key));
  if (found == expected) return {};
  return data_loss(format("{}: key '{}' must be {} in this part of the model, but {}", file.path(),
                          key, expected, found ? format("is {}", *found) : "is missing"));
}

Result<std::shared_ptr<const GgufCheckpoint>> open_part(const std::string& path,
                                                        const PartName& name, int64_t number) {
  const std::string part = part_path(name.prefix, number, name.count);
  const auto file = MmapFile::open(part);
  if (!file.ok()) {
    return Status(file.status().code(), format("{}: part {} of {} is needed too: {}", path, number,
                                               name.count, file.status().message()));
  }
  return GgufCheckpoint::parse(*file);
}

}  // namespace

Result<std::shared_ptr<const GgufCheckpoint>> join_gguf_parts(
    const std::string& path, std::shared_ptr<const GgufCheckpoint> file) {
  const int64_t count = OCTAVO_TRY(split_number(*file, kCountKey)).value_or(0);
  if (count <= 1) return file;
  const std::optional<PartName> name = parse_part_name(path);
  if (!name) {
    return unsupported(
        format("{}: key '{}': the model is split into {} files, which are found by "
               "their names; call this one NAME-00001-of-{:05}.gguf again, with "
               "its own number",
               path, kCountKey, count, count));
  }
  if (name->count != count || name->number < 1 || name->number > count) {
    return data_loss(format("{}: the name says part {} of {}, but key '{}' is {}", path,
                            name->number, name->count, kCountKey, count));
  }
  std::vector<std::shared_ptr<const GgufCheckpoint>> parts;
  size_t num_tensors = 0;
  for (int64_t number = 1; number <= count; ++number) {
    parts.push_back(number == name->number ? file : OCTAVO_TRY(open_part(path, *name, number)));
    OCTAVO_TRY(check_number(*parts.back(), kCountKey, count));
    OCTAVO_TRY(check_number(*parts.back(), kIndexKey, number - 1));
    num_tensors += parts.back()->tensors().size();
  }
  const auto declared = OCTAVO_TRY(split_number(*parts[0], kTensorsKey));
  if (declared && *declared != static_cast<int64_t>(num_tensors)) {
    return data_loss(format("{}: key '{}' is {}, but the {} parts hold {} tensors",
                            parts[0]->path(), kTensorsKey, *declared, count, num_tensors));
  }
  return GgufCheckpoint::join(parts, path);
}

}  // namespace octavo::formats
