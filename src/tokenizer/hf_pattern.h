// HfPattern: a "pattern" of a tokenizer.json: a string, or a regular expression. Those that common
// models use are matched by split_patterns.h, the others by PCRE2.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/regex.h"
#include "tokenizer/split_patterns.h"

namespace octavo::tokenizer {

class HfPattern {
 public:
  // Reads the key "pattern" of `json`. `source` starts every error.
  static Result<HfPattern> from_json(const Json& json, const std::string& source);
  static Result<HfPattern> from_regex(const std::string& pattern, const std::string& source);
  explicit HfPattern(FindMatch find) : matcher_(find) {}

  // Appends all matches, ascending and disjoint; some may be empty. `text` may be any bytes.
  Status find_all(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  explicit HfPattern(std::string text) : matcher_(std::move(text)) {}
  explicit HfPattern(Regex regex) : matcher_(std::move(regex)) {}

  std::variant<FindMatch, std::string, Regex> matcher_;
};

}  // namespace octavo::tokenizer
