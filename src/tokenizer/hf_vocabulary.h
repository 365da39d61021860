// The vocabulary of a byte-level tokenizer.json: `model.vocab` and `added_tokens`.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// pieces and kinds (an id that is not used has the piece "" and is kUnused), match_rules, and the
// model's own tokens as text_tokens. `source` starts every error.
Result<Vocabulary> read_hf_vocabulary(const Json& tokenizer_json, const std::string& source);

// Fills bytes, and leaves those in text_tokens that text can become, once all kinds are known.
void fill_hf_bytes(Vocabulary& vocabulary);

// The id of the token that is spelled so; kNoToken where there is none.
TokenId find_piece(const Vocabulary& vocabulary, std::string_view piece);

}  // namespace octavo::tokenizer
