// The vocabulary of a tokenizer.json: `model.vocab` and `added_tokens`.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/hf_decoder.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// pieces and kinds (an id that is not used has the piece "" and is kUnused), match_rules, and the
// model's own tokens as text_tokens. `source` starts every error.
Result<Vocabulary> read_hf_vocabulary(const Json& tokenizer_json, const std::string& source);

// Fill bytes, and leave those in text_tokens that text can become, once all kinds are known: of
// tokens in the alphabet of byte_level.h, and of those that `decoder` reads.
void fill_byte_level_bytes(Vocabulary& vocabulary);
void fill_spelled_bytes(Vocabulary& vocabulary, const HfDecoder& decoder);

// The id of the token that is spelled so; kNoToken where there is none.
TokenId find_piece(const Vocabulary& vocabulary, std::string_view piece);

}  // namespace octavo::tokenizer
