// Builds a tokenizer from a tokenizer.json and the files beside it.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "octavo/tokenizer.h"
#include "tokenizer/hf_config.h"

namespace octavo::tokenizer {

// `source` (the path of tokenizer.json) starts every error. What a file asks for and this engine
// cannot do is kUnsupported with its name; a template that does not parse leaves
// has_chat_template() false.
Result<std::unique_ptr<Tokenizer>> load_hf_tokenizer(const Json& tokenizer, const HfConfig& config,
                                                     const std::string& source);

}  // namespace octavo::tokenizer
