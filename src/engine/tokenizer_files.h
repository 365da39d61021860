// Where the tokenizer of a model is, for each format of model files.
#pragma once

#include <memory>
#include <vector>

#include "formats/checkpoint.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

// A GGUF file holds its tokenizer; a folder has tokenizer.json beside the weights. kNotFound where
// that is missing.
Result<std::unique_ptr<Tokenizer>> tokenizer_of(const formats::Checkpoint& checkpoint);

// The tokens that end an answer by the model's own configuration, for a model that runs without its
// tokenizer. Ids outside [0, vocab_size) are left out.
Result<std::vector<TokenId>> configured_stop_ids(const formats::Checkpoint& checkpoint,
                                                 int64_t vocab_size);

}  // namespace octavo::engine
