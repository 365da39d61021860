// Builds a tokenizer from the files of a Hugging Face folder.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/json.h"
#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

struct HfTokenizerFiles {
  const Json& tokenizer;                   // tokenizer.json
  const Json* tokenizer_config = nullptr;  // tokenizer_config.json, where there is one
  std::string chat_template;               // chat_template.jinja, used before that of the config
  std::span<const int64_t> eos_ids;        // of generation_config.json and config.json
};

// `source` (the path of tokenizer.json) starts every error. What a file asks for and this engine
// cannot do is kUnsupported with its name; a template that does not parse leaves
// has_chat_template() false.
Result<std::unique_ptr<Tokenizer>> load_hf_tokenizer(const HfTokenizerFiles& files,
                                                     const std::string& source);

}  // namespace octavo::tokenizer
