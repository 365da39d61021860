// What both of Python's ways to format share: a field's specification and how values fill it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "octavo/status.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

// A conversion: of `%` flags, width, precision and kind; of braces also fill and alignment.
struct FormatSpec {
  std::string_view fill = " ";
  char align = '\0';  // < > ^ =, or none
  char sign = '-';    // '-', '+' or ' '
  bool alternate = false;
  bool group_by_comma = false;
  int64_t width = 0;
  int64_t precision = -1;
  char kind = '\0';
};

// The result of a format: all of it is tainted where the pattern is, as a pattern can make any text
// of its fill characters.
Result<Value> formatted_text(Runtime& rt, const Str& pattern, const TextBuilder& out);

// A number at text[pos], behind which pos then stands; 0 where there is none.
Result<int64_t> parse_count(std::string_view text, size_t& pos);

// `body` within the width. A sign stays in front of fill that is aligned with '='.
void append_padded(TextBuilder& out, const Str& body, const FormatSpec& spec, char default_align);

// The magnitudes of numbers by the spec's kind; signs are the caller's.
std::string integer_digits(const Value& v, const FormatSpec& spec, bool& negative);
std::string float_digits(double d, const FormatSpec& spec);
std::string with_sign(bool negative, char sign, const std::string& digits);

// Whether `kind` is one of `kinds`.
inline bool is_kind(char kind, std::string_view kinds) {
  return kinds.find(kind) != std::string_view::npos;
}

}  // namespace octavo::tokenizer::jinja
