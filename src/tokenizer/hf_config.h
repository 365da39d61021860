// HfConfig: what the files beside a vocabulary in a Hugging Face folder say: special tokens, the
// tokens that end an answer, the chat template.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

struct HfConfig {
  const Json* tokenizer_config = nullptr;  // tokenizer_config.json, where there is one
  std::string tokenizer_config_path;       // starts every error in it
  std::string chat_template;               // used before that of the config
  std::string chat_template_path;          // where it is from, which starts every error in it
  std::span<const int64_t> eos_ids;        // of generation_config.json and config.json
};

// Fills bos, eos, unknown and padding where they are named, and stop_ids; makes control tokens of
// BOS and EOS, and changes prefix and suffix where the config asks for or against them.
Status apply_hf_config(const HfConfig& config, Vocabulary& vocabulary);

// The error, for render(), where there is none. "chat_template" is a template, or a list of several
// with names.
Result<ChatTemplate> read_chat_template(const HfConfig& config);

}  // namespace octavo::tokenizer
