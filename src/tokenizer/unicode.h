// Unicode's data: general categories, simple case mappings, normal forms, and the character classes
// that the patterns of pre-tokenizers name (\p{L}, \p{N}, \p{P}, \s). The only wrapper of utf8proc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace octavo::tokenizer {

// By the standard's abbreviations; kCn is what is not assigned.
enum class Category : uint8_t {
  // clang-format off
  kCn, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo, kPc, kPd, kPs,
  kPe, kPi, kPf, kPo, kSm, kSc, kSk, kSo, kZs, kZl, kZp, kCc, kCf, kCs, kCo,
  // clang-format on
};
Category category(char32_t c);

// The mappings of one character to one character.
char32_t simple_upper(char32_t c);
char32_t simple_title(char32_t c);
char32_t simple_lower(char32_t c);

using CharClasses = uint8_t;  // a set of the bits below; 0: none of them (symbols, marks, controls)
inline constexpr CharClasses kLetter = 1;       // \p{L}
inline constexpr CharClasses kNumber = 2;       // \p{N}
inline constexpr CharClasses kSpace = 4;        // \s: the property White_Space
inline constexpr CharClasses kPunctuation = 8;  // \p{P}

// One character of a text. What is not UTF-8 has no class and counts as one character for each
// maximal invalid subpart.
struct TextChar {
  char32_t code_point;
  CharClasses classes;
  uint8_t size_bytes;

  bool is(CharClasses any_of) const { return (classes & any_of) != 0; }
  bool is_newline() const { return code_point == U'\n' || code_point == U'\r'; }
};

namespace unicode_detail {
extern const std::array<CharClasses, 128> kAsciiClasses;
TextChar decode_char(std::string_view text, size_t pos);
}  // namespace unicode_detail

// The character at `pos` (< text.size()).
inline TextChar char_at(std::string_view text, size_t pos) {
  const auto byte = static_cast<unsigned char>(text[pos]);
  if (byte < 0x80) return {byte, unicode_detail::kAsciiClasses[byte], 1};
  return unicode_detail::decode_char(text, pos);
}

// The end of the extended grapheme cluster at `pos` (< text.size()): what a reader takes for one
// character. Bytes that are not UTF-8 stand alone.
size_t grapheme_end(std::string_view text, size_t pos);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// `text` in one of Unicode's normal forms; bytes that are not UTF-8 stay as they are and combine
// with nothing. Returns `text` itself where that is cheap to see to be right, else a view of
// `storage`. Takes O(n log n) on any input.
std::string_view to_normal_form(NormalForm form, std::string_view text, std::string& storage);

inline std::string_view to_nfc(std::string_view text, std::string& storage) {
  return to_normal_form(NormalForm::kNfc, text, storage);
}

}  // namespace octavo::tokenizer
