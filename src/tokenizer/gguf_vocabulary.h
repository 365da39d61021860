// The part of GGUF metadata that every kind of vocabulary has: tokens and their kinds, the ids that
// are named, and what is put around a text.
#pragma once

#include <string>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// What the keys are read with: the metadata, and where it is from, which starts every error.
struct GgufSource {
  const Json& metadata;
  const std::string& name;
};

Result<bool> read_gguf_flag(const GgufSource& source, const char* key, bool otherwise);

// The id under `key`; kNoToken where the file has none, or one that the vocabulary lacks.
Result<TokenId> read_gguf_token_id(const GgufSource& source, const char* key,
                                   const Vocabulary& vocabulary);

// pieces and kinds.
Result<Vocabulary> read_gguf_vocabulary(const GgufSource& source);

// The ids that the file names, and what follows from them. `add_bos`: where the file does not say.
Status read_gguf_named_tokens(const GgufSource& source, bool add_bos, Vocabulary& vocabulary);

// Adds the control tokens to stop_ids that end a turn in one model family or another.
void add_known_stops(const GgufSource& source, Vocabulary& vocabulary);

}  // namespace octavo::tokenizer
