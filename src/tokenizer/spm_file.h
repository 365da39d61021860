// Builds a tokenizer from a SentencePiece model, the file tokenizer.model of a Hugging Face folder:
// byte-pair encoding or Unigram.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "octavo/tokenizer.h"
#include "tokenizer/hf_config.h"

namespace octavo::tokenizer {

// `source` (the path) starts every error in `file`. A BOS is put before a text where the vocabulary
// has one and the config does not say otherwise. "added_tokens_decoder" of the config may add
// tokens.
Result<std::unique_ptr<Tokenizer>> load_spm_tokenizer(std::string_view file, const HfConfig& config,
                                                      const std::string& source);

}  // namespace octavo::tokenizer
