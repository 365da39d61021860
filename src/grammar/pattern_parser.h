// PatternParser: what the parsers of GBNF and of regular expressions share: reading a text from its
// beginning to its end, repeats and escapes. For these two alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "grammar/builder.h"

namespace octavo::grammar {

class PatternParser {
 protected:
  PatternParser(std::string_view text, Builder& builder) : text_(text), builder_(builder) {}
  ~PatternParser() = default;

  // With the place that has been reached.
  virtual Status error(std::string_view what) const = 0;

  // The rest of a repeat behind its {.
  virtual Result<ExprId> parse_counts(ExprId part) = 0;

  bool at(std::string_view token) const { return text_.substr(pos_).starts_with(token); }

  bool skip(std::string_view token) {
    if (!at(token)) return false;
    pos_ += token.size();
    return true;
  }

  // Whether `part` is repeated here; it is then the repeat.
  Result<bool> parse_repeat(ExprId& part) {
    if (skip("*")) {
      part = builder_.repeat(part, 0, kUnlimited);
    } else if (skip("+")) {
      part = builder_.repeat(part, 1, kUnlimited);
    } else if (skip("?")) {
      part = builder_.optional(part);
    } else if (skip("{")) {
      part = OCTAVO_TRY(parse_counts(part));
    } else {
      return false;
    }
    return true;
  }

  // Nothing where no digit stands.
  Result<std::optional<uint32_t>> parse_count() {
    std::optional<uint32_t> count;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      count = count.value_or(0) * 10 + static_cast<uint32_t>(text_[pos_] - '0');
      if (*count > kMaxCount) return error(format("a repeat counts beyond {}", kMaxCount));
    }
    return count;
  }

  Result<char32_t> parse_plain_char() {
    const Utf8Char c = utf8_decode(text_, pos_);
    if (!c.valid) return error("it is not valid UTF-8");
    pos_ += c.size_bytes;
    return c.code_point;
  }

  // `surrogate`: what is said of one.
  Result<char32_t> parse_hex(int digits, std::string_view surrogate) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const char c = pos_ < text_.size() ? text_[pos_] : ' ';
      const char lower = static_cast<char>(c | 0x20);
      const bool letter = lower >= 'a' && lower <= 'f';
      if (!letter && (c < '0' || c > '9')) return error("an escape has too few digits");
      value = value * 16 + static_cast<char32_t>(letter ? lower - 'a' + 10 : c - '0');
      if (value > 0x10FFFF) return error("an escape is no character");
    }
    if (value >= 0xD800 && value <= 0xDFFF) return error(surrogate);
    return value;
  }

  std::string_view text_;
  Builder& builder_;
  size_t pos_ = 0;
};

}  // namespace octavo::grammar
