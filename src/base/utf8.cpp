#include "base/utf8.h"

#include <algorithm>

namespace octavo {
namespace {

struct LeadByte {
  int length;                       // of the whole character; 0: not a lead byte
  unsigned char second_min = 0x80;  // bounds of the second byte exclude overlong forms,
  unsigned char second_max = 0xBF;  // surrogates and code points above U+10FFFF
};

LeadByte classify(unsigned char b) {
  if (b < 0x80) return {1};
  if (b >= 0xC2 && b <= 0xDF) return {2};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {3};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  if (b >= 0xF1 && b <= 0xF3) return {4};
  return {0};
}

// How many of the available bytes from `offset` are a valid start of the character led by `lead`.
int valid_prefix(std::string_view text, size_t offset, const LeadByte& lead) {
  const int available = static_cast<int>(std::min<size_t>(lead.length, text.size() - offset));
  for (int i = 1; i < available; ++i) {
    const auto b = static_cast<unsigned char>(text[offset + i]);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (b < low || b > high) return i;
  }
  return available;
}

}  // namespace

Utf8Char utf8_decode(std::string_view text, size_t offset) {
  const auto first = static_cast<unsigned char>(text[offset]);
  const LeadByte lead = classify(first);
  if (lead.length == 0) return {kReplacementCharacter, 1, false};
  if (lead.length == 1) return {first, 1, true};
  const int size = valid_prefix(text, offset, lead);
  if (size < lead.length) return {kReplacementCharacter, static_cast<size_t>(size), false};
  char32_t code_point = first & (0x7F >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[offset + i]) & 0x3F);
  }
  return {code_point, static_cast<size_t>(lead.length), true};
}

void utf8_append(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool utf8_is_valid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    if (!c.valid) return false;
    i += c.size_bytes;
  }
  return true;
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    if (c.valid) {
      out.append(text, i, c.size_bytes);
    } else {
      utf8_append(out, kReplacementCharacter);
    }
    i += c.size_bytes;
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    i += c.size_bytes;
    // U+0080 to U+009F too: U+009B begins commands of a terminal as ESC [ does.
    if (c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA0)) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'x', kDigits[c.code_point >> 4], kDigits[c.code_point & 15]};
    } else {
      utf8_append(out, c.code_point);
    }
  }
  return out;
}

size_t utf8_incomplete_suffix(std::string_view text) {
  const size_t longest = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= longest; ++back) {
    const size_t offset = text.size() - back;
    const LeadByte lead = classify(static_cast<unsigned char>(text[offset]));
    if (lead.length == 0) continue;  // a continuation byte: look further back
    const bool cut_short = lead.length > static_cast<int>(back) &&
                           valid_prefix(text, offset, lead) == static_cast<int>(back);
    return cut_short ? back : 0;
  }
  return 0;
}

}  // namespace octavo
