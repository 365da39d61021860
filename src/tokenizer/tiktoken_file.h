// Builds a tokenizer from a vocabulary in tiktoken's format, the file tokenizer.model of Llama 3
// and 4: a line for each token, its bytes in Base64 and its rank.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "octavo/tokenizer.h"
#include "tokenizer/hf_config.h"

namespace octavo::tokenizer {

// The file names neither control tokens nor the pattern that cuts text: THE table of the families
// that are known is in tiktoken_file.cpp, by the number of lines. Another number is kUnsupported.
// `source` (the path) starts every error in `file`.
Result<std::unique_ptr<Tokenizer>> load_tiktoken_tokenizer(std::string_view file,
                                                           const HfConfig& config,
                                                           const std::string& source);

}  // namespace octavo::tokenizer
