// UTF-8: decoding that is total (any bytes in, never an error) and validity checks. Overlong forms,
// surrogates and code points above U+10FFFF are invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace octavo {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  char32_t code_point;  // kReplacementCharacter where the bytes are invalid
  size_t size_bytes;    // 1 to 4; the length of the maximal invalid prefix where invalid
  bool valid;
};

// Decodes the character at `offset` (< text.size()). Invalid input consumes its maximal subpart, as
// the Unicode standard recommends and Python's errors="replace" does.
Utf8Char utf8_decode(std::string_view text, size_t offset);

void utf8_append(std::string& out, char32_t code_point);

bool utf8_is_valid(std::string_view text);

// The same text with each maximal invalid subpart replaced by U+FFFD.
std::string utf8_replace_invalid(std::string_view text);

// For messages: invalid UTF-8 becomes U+FFFD, control characters become \\xNN, so that text from a
// file cannot steer a terminal or break a line.
std::string printable(std::string_view text);

// How many bytes at the end form the start of a character that is not complete yet (0 to 3). What a
// stream must hold back; bytes that can never become valid are not counted.
size_t utf8_incomplete_suffix(std::string_view text);

}  // namespace octavo
