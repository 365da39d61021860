// Builds a tokenizer from a model's metadata, whichever form its vocabulary has.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

// From the `tokenizer.ggml.*` and `tokenizer.chat_template` keys of a GGUF file's metadata.
// `source` (the file) starts every error. A vocabulary kind or pre-tokenizer that is not known is
// kUnsupported with its name; a template that does not parse leaves has_chat_template() false.
Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const Json& metadata,
                                                       const std::string& source);

}  // namespace octavo::tokenizer
