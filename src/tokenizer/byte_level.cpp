#include "tokenizer/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace octavo::tokenizer {
namespace {

// Bytes that Latin-1 prints stand for themselves; the others are numbered from U+0100.
constexpr bool is_printable(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr int kAlphabetEnd = 0x144;  // U+0100 + the 68 bytes that are not printable

constexpr std::array<int16_t, kAlphabetEnd> byte_of_character() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = is_printable(byte) ? byte : next++;
    bytes[static_cast<size_t>(character)] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kByteOfCharacter = byte_of_character();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t pos = 0; pos < spelling.size();) {
    const Utf8Char c = utf8_decode(spelling, pos);
    const int byte = c.code_point < kAlphabetEnd ? kByteOfCharacter[c.code_point] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    pos += c.size_bytes;
  }
  return bytes;
}

}  // namespace octavo::tokenizer
