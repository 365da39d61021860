#include "tokenizer/hf_pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace octavo::tokenizer {
namespace {

// Words and runs of what is neither word nor space, with \w as Unicode's annex on regular
// expressions has it.
constexpr const char* kWords =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}]+|)"
    R"([^\s\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}]+)";

Result<bool> read_flag(const Json& json, const char* key, bool otherwise,
                       const std::string& source) {
  if (json_find(json, key) == nullptr) return otherwise;
  return json_bool(json, key, source);
}

}  // namespace

Result<HfPreTokenizer> HfPreTokenizer::from_json(const Json* json, const std::string& source) {
  HfPreTokenizer pre_tokenizer;
  if (json != nullptr) OCTAVO_TRY(pre_tokenizer.add(*json, source));
  return pre_tokenizer;
}

Result<HfPreTokenizer> HfPreTokenizer::byte_level(std::span<const char* const> patterns,
                                                  const std::string& source) {
  HfPreTokenizer pre_tokenizer;
  pre_tokenizer.last_ = Last::kByteLevel;
  for (const char* pattern : patterns) {
    pre_tokenizer.stages_.push_back(
        {OCTAVO_TRY(HfPattern::from_regex(pattern, source)), Behaviour::kIsolated, false});
  }
  return pre_tokenizer;
}

Status HfPreTokenizer::add(const Json& json, const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(json, "type", source));
  if (type == "Sequence") {
    const JsonArray& steps = *OCTAVO_TRY(json_array(json, "pretokenizers", source));
    for (const Json& step : steps) OCTAVO_TRY(add(step, source));
    return {};
  }
  if (last_ != Last::kNothing) {
    return unsupported(format("{}: '{}' after '{}'", source, type,
                              last_ == Last::kByteLevel ? "ByteLevel" : "Metaspace"));
  }
  if (type == "ByteLevel") return add_byte_level(json, source);
  if (type == "Metaspace") {
    last_ = Last::kMetaspace;
    metaspace_ = OCTAVO_TRY(HfMetaspace::from_json(json, source));
    return {};
  }
  return add_stage(type, json, source);
}

Status HfPreTokenizer::add_stage(const std::string& type, const Json& json,
                                 const std::string& source) {
  if (type == "Split") return add_split(json, source);
  if (type == "Digits") {
    const bool each = OCTAVO_TRY(read_flag(json, "individual_digits", false, source));
    stages_.push_back({HfPattern(each ? find_number : find_numbers), Behaviour::kIsolated, false});
  } else if (type == "Punctuation") {
    Behaviour behaviour = Behaviour::kIsolated;
    if (json_find(json, "behavior") != nullptr) {
      behaviour = OCTAVO_TRY(read_behaviour(json, source));
    }
    stages_.push_back({HfPattern(find_mark), behaviour, false});
  } else if (type == "Whitespace") {
    HfPattern words = OCTAVO_TRY(HfPattern::from_regex(kWords, source));
    stages_.push_back({std::move(words), Behaviour::kRemoved, true});
  } else if (type == "WhitespaceSplit") {
    stages_.push_back({HfPattern(find_space), Behaviour::kRemoved, false});
  } else if (type == "BertPreTokenizer") {
    stages_.push_back({HfPattern(find_space), Behaviour::kRemoved, false});
    stages_.push_back({HfPattern(find_mark), Behaviour::kIsolated, false});
  } else {
    return unsupported(format("{}: '{}' is not supported", source, type));
  }
  return {};
}

Status HfPreTokenizer::add_byte_level(const Json& json, const std::string& source) {
  last_ = Last::kByteLevel;
  add_prefix_space_ = OCTAVO_TRY(json_bool(json, "add_prefix_space", source));
  words_ = OCTAVO_TRY(read_flag(json, "use_regex", true, source));
  return {};
}

Status HfPreTokenizer::add_split(const Json& json, const std::string& source) {
  const Behaviour behaviour = OCTAVO_TRY(read_behaviour(json, source));
  const bool invert = OCTAVO_TRY(read_flag(json, "invert", false, source));
  stages_.push_back({OCTAVO_TRY(HfPattern::from_json(json, source)), behaviour, invert});
  return {};
}

Result<HfPreTokenizer::Behaviour> HfPreTokenizer::read_behaviour(const Json& json,
                                                                 const std::string& source) {
  const std::string name = OCTAVO_TRY(json_string(json, "behavior", source));
  if (name == "Isolated") return Behaviour::kIsolated;
  if (name == "Removed") return Behaviour::kRemoved;
  if (name == "MergedWithPrevious") return Behaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behaviour::kMergedWithNext;
  if (name == "Contiguous") return Behaviour::kContiguous;
  return unsupported(format("{}: 'behavior' is '{}'", source, name));
}

// Of two matches in a row only the one beside the gap is merged with it, as Hugging Face has it.
void HfPreTokenizer::merge_parts(Behaviour behaviour, std::vector<Part>& parts) {
  if (behaviour == Behaviour::kRemoved) {
    std::erase_if(parts, [](const Part& part) { return part.is_match; });
  }
  if (behaviour == Behaviour::kIsolated || behaviour == Behaviour::kRemoved) return;
  const bool backwards = behaviour == Behaviour::kMergedWithNext;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<Part> merged;
  bool previous_match = false;
  for (const Part& part : parts) {
    const bool joins = behaviour == Behaviour::kContiguous ? part.is_match == previous_match
                                                           : part.is_match && !previous_match;
    previous_match = part.is_match;
    if (!joins || merged.empty()) {
      merged.push_back(part);
    } else if (backwards) {
      merged.back().span.begin = part.span.begin;
    } else {
      merged.back().span.end = part.span.end;
    }
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  parts = std::move(merged);
}

void HfPreTokenizer::replace_spaces(std::string_view part, bool at_start, std::string& out) const {
  const std::string& replacement = metaspace_.replacement;
  const bool wanted = metaspace_.prepend == HfMetaspace::Prepend::kAlways ||
                      (metaspace_.prepend == HfMetaspace::Prepend::kFirst && at_start);
  out.clear();
  if (wanted && part.front() != ' ' && !part.starts_with(replacement)) out += replacement;
  for (size_t pos = 0; pos < part.size();) {
    const size_t space = std::min(part.find(' ', pos), part.size());
    out += part.substr(pos, space - pos);
    if (space < part.size()) out += replacement;
    pos = space + 1;
  }
}

Status HfPreTokenizer::split_by_patterns(std::string_view text,
                                         std::vector<TextSpan>& pieces) const {
  if (text.empty()) return {};
  pieces.push_back({0, text.size()});
  std::vector<TextSpan> before;
  std::vector<TextSpan> matches;
  std::vector<Part> parts;
  for (const Stage& stage : stages_) {
    before.swap(pieces);
    pieces.clear();
    for (const TextSpan& piece : before) {
      const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      matches.clear();
      OCTAVO_TRY(stage.pattern.find_all(part, matches));
      parts.clear();
      size_t done = 0;
      for (const TextSpan& match : matches) {
        if (match.begin > done) parts.push_back({{done, match.begin}, stage.invert});
        parts.push_back({match, !stage.invert});
        done = match.end;
      }
      if (done < part.size()) parts.push_back({{done, part.size()}, stage.invert});
      merge_parts(stage.behaviour, parts);
      for (const Part& found : parts) {
        if (found.span.end == found.span.begin) continue;
        pieces.push_back({piece.begin + found.span.begin, piece.begin + found.span.end});
      }
    }
  }
  return {};
}

}  // namespace octavo::tokenizer
