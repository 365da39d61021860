#include "tokenizer/hf_pattern.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

namespace octavo::tokenizer {
namespace {

struct KnownPattern {
  std::string_view regex;
  FindMatch find;
};

constexpr KnownPattern kKnownPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", find_gpt2},
    {kLlama3Pattern, find_llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)"
     R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     find_qwen2},
    {R"(\p{N})", find_number},
    {R"(\p{N}+)", find_numbers},
    {R"([0-9][0-9][0-9])", find_three_digits},
    {R"([\r\n])", find_newline},
    {R"(\s?\p{L}+)", find_spaced_letters},
    {R"(\s?\p{P}+)", find_spaced_punctuation},
    {"[一-龥ࠀ-一가-퟿]+", find_cjk},
};

// The same text with a control character for each byte that is no part of a character.
std::string readable_copy(std::string_view text) {
  std::string copy(text);
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    if (!c.valid) copy.replace(pos, c.size_bytes, c.size_bytes, '\x01');
    pos += c.size_bytes;
  }
  return copy;
}

void find_all_text(const std::string& wanted, std::string_view text,
                   std::vector<TextSpan>& matches) {
  for (size_t pos = 0; (pos = text.find(wanted, pos)) != std::string_view::npos;) {
    matches.push_back({pos, pos + wanted.size()});
    pos += wanted.size();
  }
}

Status find_all_regex(const Regex& regex, std::string_view text, std::vector<TextSpan>& matches) {
  std::string copy;
  if (!utf8_is_valid(text)) text = copy = readable_copy(text);
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    const std::optional<TextSpan> match = OCTAVO_TRY(regex.find(text, from));
    if (!match) break;
    // \K and the like are refused, but a match must never start before `from`.
    OCTAVO_CHECK(match->begin >= from && match->end >= match->begin);
    if (match->begin == match->end && last_end == match->end) {
      // An empty match right behind another does not count; go on behind the next character.
      if (match->end == text.size()) break;
      from = match->end + utf8_decode(text, match->end).size_bytes;
      continue;
    }
    matches.push_back(*match);
    from = match->end;
    last_end = from;
  }
  return {};
}

}  // namespace

Result<HfPattern> HfPattern::from_json(const Json& json, const std::string& source) {
  const Json* pattern = json_find(json, "pattern");
  if (pattern == nullptr) return data_loss(source + ": 'pattern' is missing");
  if (json_find(*pattern, "String") != nullptr) {
    std::string text = OCTAVO_TRY(json_string(*pattern, "String", source));
    if (text.empty()) return data_loss(source + ": 'String' is empty");
    return HfPattern(std::move(text));
  }
  return from_regex(OCTAVO_TRY(json_string(*pattern, "Regex", source)), source);
}

Result<HfPattern> HfPattern::from_regex(const std::string& pattern, const std::string& source) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.regex == pattern) return HfPattern(known.find);
  }
  Result<Regex> regex = Regex::compile(pattern);
  if (!regex.ok()) return Status(regex.status().code(), source + ": " + regex.status().message());
  return HfPattern(std::move(regex).value());
}

Status HfPattern::find_all(std::string_view text, std::vector<TextSpan>& matches) const {
  if (const auto* regex = std::get_if<Regex>(&matcher_)) {
    return find_all_regex(*regex, text, matches);
  }
  if (const auto* wanted = std::get_if<std::string>(&matcher_)) {
    find_all_text(*wanted, text, matches);
    return {};
  }
  const FindMatch find = std::get<FindMatch>(matcher_);
  for (size_t pos = 0; pos < text.size();) {
    const TextSpan match = find(text, pos);
    if (match.end > match.begin) matches.push_back(match);
    pos = match.end;
  }
  return {};
}

}  // namespace octavo::tokenizer
