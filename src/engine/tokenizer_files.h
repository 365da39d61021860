// Where the tokenizer of a model is, for each format of model files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

// A GGUF file holds its tokenizer; a folder has tokenizer.json beside the weights, or
// tokenizer.model. kNotFound where both are missing.
Result<std::unique_ptr<Tokenizer>> tokenizer_of(const formats::Checkpoint& checkpoint);

// The same by path. Weights are not looked at: a folder needs none, and a tokenizer.json or
// tokenizer.model file alone will do.
Result<std::unique_ptr<Tokenizer>> tokenizer_at(const std::string& path);

// The tokens that end an answer by the model's own configuration, for a model that runs without its
// tokenizer. Ids outside [0, vocab_size) are left out.
Result<std::vector<TokenId>> configured_stop_ids(const formats::Checkpoint& checkpoint,
                                                 int64_t vocab_size);

}  // namespace octavo::engine
