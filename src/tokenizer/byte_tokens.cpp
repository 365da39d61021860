#include "tokenizer/byte_tokens.h"

namespace octavo::tokenizer {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::optional<char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::array<TokenId, 256> find_byte_tokens(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> ids;
  ids.fill(kNoToken);
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (const auto byte = byte_of_piece(vocabulary.pieces[i])) {
      ids[static_cast<unsigned char>(*byte)] = static_cast<TokenId>(i);
    }
  }
  return ids;
}

}  // namespace octavo::tokenizer
