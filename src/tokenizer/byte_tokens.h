// How vocabularies of SentencePiece's kind spell what is not text: spaces, and bytes, which are
// tokens for text without one of its own.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// How these vocabularies spell a space.
inline constexpr std::string_view kSpelledSpace = "\u2581";

// The byte that "<0xHH>" spells; nullopt for any other spelling.
std::optional<char> byte_of_piece(std::string_view piece);

// The ids of the tokens "<0x00>" to "<0xFF>", kNoToken for those that are not there.
std::array<TokenId, 256> find_byte_tokens(const Vocabulary& vocabulary);

}  // namespace octavo::tokenizer
