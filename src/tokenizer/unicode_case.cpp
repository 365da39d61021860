#include "tokenizer/unicode_case.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/unicode.h"

namespace octavo::tokenizer {
namespace {

// Upper-case mappings of more than one character, from Unicode's SpecialCasing.txt; the regular
// block U+1F80 to U+1FAF (Greek letters with iota subscript) is computed.
struct Expansion {
  char32_t code_point;
  const char32_t* upper;
};
constexpr Expansion kExpansions[] = {
    {0x00DF, U"SS"},
    {0x0149, U"\u02BCN"},
    {0x01F0, U"J\u030C"},
    {0x0390, U"Ι\u0308\u0301"},
    {0x03B0, U"Υ\u0308\u0301"},
    {0x0587, U"ԵՒ"},
    {0x1E96, U"H\u0331"},
    {0x1E97, U"T\u0308"},
    {0x1E98, U"W\u030A"},
    {0x1E99, U"Y\u030A"},
    {0x1E9A, U"A\u02BE"},
    {0x1F50, U"Υ\u0313"},
    {0x1F52, U"Υ\u0313\u0300"},
    {0x1F54, U"Υ\u0313\u0301"},
    {0x1F56, U"Υ\u0313\u0342"},
    {0x1FB2, U"\u1FBAΙ"},
    {0x1FB3, U"ΑΙ"},
    {0x1FB4, U"\u0386Ι"},
    {0x1FB6, U"Α\u0342"},
    {0x1FB7, U"Α\u0342Ι"},
    {0x1FBC, U"ΑΙ"},
    {0x1FC2, U"\u1FCAΙ"},
    {0x1FC3, U"ΗΙ"},
    {0x1FC4, U"\u0389Ι"},
    {0x1FC6, U"Η\u0342"},
    {0x1FC7, U"Η\u0342Ι"},
    {0x1FCC, U"ΗΙ"},
    {0x1FD2, U"Ι\u0308\u0300"},
    {0x1FD3, U"Ι\u0308\u0301"},
    {0x1FD6, U"Ι\u0342"},
    {0x1FD7, U"Ι\u0308\u0342"},
    {0x1FE2, U"Υ\u0308\u0300"},
    {0x1FE3, U"Υ\u0308\u0301"},
    {0x1FE4, U"Ρ\u0313"},
    {0x1FE6, U"Υ\u0342"},
    {0x1FE7, U"Υ\u0308\u0342"},
    {0x1FF2, U"\u1FFAΙ"},
    {0x1FF3, U"ΩΙ"},
    {0x1FF4, U"\u038FΙ"},
    {0x1FF6, U"Ω\u0342"},
    {0x1FF7, U"Ω\u0342Ι"},
    {0x1FFC, U"ΩΙ"},
    {0xFB00, U"FF"},
    {0xFB01, U"FI"},
    {0xFB02, U"FL"},
    {0xFB03, U"FFI"},
    {0xFB04, U"FFL"},
    {0xFB05, U"ST"},
    {0xFB06, U"ST"},
    {0xFB13, U"ՄՆ"},
    {0xFB14, U"ՄԵ"},
    {0xFB15, U"ՄԻ"},
    {0xFB16, U"ՎՆ"},
    {0xFB17, U"ՄԽ"},
};

constexpr char32_t kCapitalIota = 0x0399;
constexpr char32_t kIotaSubscript = 0x0345;
constexpr char32_t kCapitalSigma = 0x03A3;
constexpr char32_t kFinalSigma = 0x03C2;
constexpr char32_t kCapitalIWithDot = 0x0130;
constexpr char32_t kCombiningDot = 0x0307;

std::u32string_view expansion(char32_t c) {
  const auto* found = std::lower_bound(
      std::begin(kExpansions), std::end(kExpansions), c,
      [](const Expansion& e, char32_t code_point) { return e.code_point < code_point; });
  if (found == std::end(kExpansions) || found->code_point != c) return {};
  return found->upper;
}

bool is_between(char32_t c, Category first, Category last) {
  const Category found = category(c);
  return found >= first && found <= last;
}

}  // namespace

bool unicode_is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || category(c) == Category::kZs || c == 0x2028 || c == 0x2029;
}

bool unicode_is_alpha(char32_t c) {
  return is_between(c, Category::kLu, Category::kLo);
}
bool unicode_is_decimal(char32_t c) {
  return category(c) == Category::kNd;
}
bool unicode_is_numeric(char32_t c) {
  return is_between(c, Category::kNd, Category::kNo);
}
bool unicode_is_cased(char32_t c) {
  return is_between(c, Category::kLu, Category::kLt);
}
bool unicode_is_upper(char32_t c) {
  return category(c) == Category::kLu;
}
bool unicode_is_lower(char32_t c) {
  return category(c) == Category::kLl;
}
bool unicode_is_word(char32_t c) {
  return c == U'_' || unicode_is_alpha(c) || unicode_is_numeric(c);
}
bool unicode_is_printable(char32_t c) {
  if (c == U' ') return true;
  const Category found = category(c);
  return found != Category::kCn && found < Category::kZs;
}

void append_upper(std::string& out, char32_t c) {
  if (c >= 0x1F80 && c <= 0x1FAF) {
    constexpr char32_t kBases[] = {0x1F08, 0x1F28, 0x1F68};
    utf8_append(out, kBases[(c - 0x1F80) / 16] + (c & 7));
    utf8_append(out, kCapitalIota);
    return;
  }
  const std::u32string_view several = expansion(c);
  for (const char32_t part : several) utf8_append(out, part);
  if (several.empty()) utf8_append(out, simple_upper(c));
}

void append_title(std::string& out, char32_t c) {
  const char32_t single = simple_title(c);
  const std::u32string_view several = expansion(c);
  // A title-case letter of its own (U+1FBC) wins over the upper-case mapping of several.
  if (several.empty() || category(single) == Category::kLt) {
    utf8_append(out, single);
    return;
  }
  utf8_append(out, several[0]);
  for (const char32_t part : several.substr(1)) {
    if (part == kCapitalIota) {
      utf8_append(out, kIotaSubscript);
    } else {
      append_lower(out, part, false);
    }
  }
}

void append_lower(std::string& out, char32_t c, bool final_sigma) {
  if (c == kCapitalSigma && final_sigma) {
    utf8_append(out, kFinalSigma);
  } else if (c == kCapitalIWithDot) {
    out += 'i';
    utf8_append(out, kCombiningDot);
  } else {
    utf8_append(out, simple_lower(c));
  }
}

}  // namespace octavo::tokenizer
