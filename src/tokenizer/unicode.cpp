#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace octavo::tokenizer {
namespace {

constexpr char32_t kCodePoints = 0x110000;

static_assert(static_cast<int>(Category::kLu) == UTF8PROC_CATEGORY_LU &&
              static_cast<int>(Category::kNd) == UTF8PROC_CATEGORY_ND &&
              static_cast<int>(Category::kPc) == UTF8PROC_CATEGORY_PC &&
              static_cast<int>(Category::kZs) == UTF8PROC_CATEGORY_ZS &&
              static_cast<int>(Category::kCo) == UTF8PROC_CATEGORY_CO);

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

CharClasses classify(char32_t c) {
  const Category found = category(c);
  if (found >= Category::kLu && found <= Category::kLo) return kLetter;
  if (found >= Category::kNd && found <= Category::kNo) return kNumber;
  if (found >= Category::kPc && found <= Category::kPo) return kPunctuation;
  return is_white_space(c) ? kSpace : 0;
}

// One byte for every code point: 1.1 MB, made on first use, where a two-stage table would cost a
// second dependent load for each character.
const CharClasses* class_table() {
  static const std::unique_ptr<const CharClasses[]> table = [] {
    auto classes = std::make_unique<CharClasses[]>(kCodePoints);
    for (char32_t c = 0; c < kCodePoints; ++c) classes[c] = classify(c);
    return classes;
  }();
  return table.get();
}

constexpr std::array<CharClasses, 128> ascii_classes() {
  std::array<CharClasses, 128> classes{};
  constexpr std::string_view kAsciiSymbols = "$+<=>^`|~";
  for (size_t c = 0x21; c < 0x7F; ++c) {
    const char symbol = static_cast<char>(c);
    if (kAsciiSymbols.find(symbol) == std::string_view::npos) classes[c] = kPunctuation;
  }
  for (size_t c = '0'; c <= '9'; ++c) classes[c] = kNumber;
  for (size_t c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = kLetter;
  for (size_t c = 0x09; c <= 0x0D; ++c) classes[c] = kSpace;
  classes[' '] = kSpace;
  return classes;
}

int combining_class(int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Marks after a starter are ordered by their class. utf8proc does it by swapping neighbours, which
// is quadratic in the length of a run of marks, and that length is the user's choice.
void order_marks(std::vector<int32_t>& code_points) {
  for (size_t begin = 0; begin < code_points.size();) {
    if (combining_class(code_points[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < code_points.size() && combining_class(code_points[end]) != 0) ++end;
    std::stable_sort(code_points.begin() + static_cast<ptrdiff_t>(begin),
                     code_points.begin() + static_cast<ptrdiff_t>(end),
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

// Brings the decomposed characters in `code_points` into order, composes them where `compose`,
// appends them to `out` and clears them.
void flush_characters(std::vector<int32_t>& code_points, bool compose, std::string& out) {
  order_marks(code_points);
  auto size = static_cast<utf8proc_ssize_t>(code_points.size());
  if (compose) {
    size = utf8proc_normalize_utf32(
        code_points.data(), size,
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    utf8_append(out, static_cast<char32_t>(code_points[static_cast<size_t>(i)]));
  }
  code_points.clear();
}

}  // namespace

Category category(char32_t c) {
  return static_cast<Category>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

char32_t simple_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t simple_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

char32_t simple_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

namespace unicode_detail {

constinit const std::array<CharClasses, 128> kAsciiClasses = ascii_classes();

TextChar decode_char(std::string_view text, size_t pos) {
  const Utf8Char c = utf8_decode(text, pos);
  const CharClasses classes = c.valid ? class_table()[c.code_point] : CharClasses{0};
  return {c.code_point, classes, static_cast<uint8_t>(c.size_bytes)};
}

}  // namespace unicode_detail

size_t grapheme_end(std::string_view text, size_t pos) {
  Utf8Char c = utf8_decode(text, pos);
  int32_t state = 0;
  for (pos += c.size_bytes; c.valid && pos < text.size();) {
    const Utf8Char next = utf8_decode(text, pos);
    if (!next.valid ||
        utf8proc_grapheme_break_stateful(static_cast<int32_t>(c.code_point),
                                         static_cast<int32_t>(next.code_point), &state)) {
      break;
    }
    c = next;
    pos += next.size_bytes;
  }
  return pos;
}

std::string_view to_normal_form(NormalForm form, std::string_view text, std::string& storage) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  // Below U+0300 (lead bytes below 0xCC) every text is in NFC; ASCII is in all forms.
  const unsigned char first_byte = form == NormalForm::kNfc ? 0xCC : 0x80;
  if (std::none_of(text.begin(), text.end(),
                   [=](char c) { return static_cast<unsigned char>(c) >= first_byte; })) {
    return text;
  }
  int options = UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  storage.clear();
  std::vector<int32_t> code_points;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    if (c.valid) {
      int32_t parts[32];  // the longest decomposition, of U+FDFA, has 18
      int last_boundclass = 0;
      const auto size =
          utf8proc_decompose_char(static_cast<int32_t>(c.code_point), parts, std::size(parts),
                                  static_cast<utf8proc_option_t>(options), &last_boundclass);
      code_points.insert(code_points.end(), parts, parts + std::max<utf8proc_ssize_t>(size, 0));
    } else {
      flush_characters(code_points, compose, storage);
      storage.append(text, pos, c.size_bytes);
    }
    pos += c.size_bytes;
  }
  flush_characters(code_points, compose, storage);
  return storage;
}

}  // namespace octavo::tokenizer
