// ModelConfig: what a checkpoint's metadata says about the model, in Hugging Face's spelling,
// checked. A value that would change the result and is not implemented is an error, never a
// default.
#pragma once

#include <cstdint>
#include <string>

#include "formats/checkpoint.h"
#include "model/rope.h"
#include "octavo/status.h"

namespace octavo::model {

struct ModelConfig {
  std::string architecture;  // as in config.json's "architectures", e.g. "LlamaForCausalLM"
  int64_t num_hidden_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  RopeParameters rope;
  bool tie_word_embeddings = false;

  // Whether the file's q and k rows are in adjacent-pair order and must be reordered to
  // rotate-half.
  bool permuted_qk = false;

  // Bytes of keys and values that one token takes in all layers, `value_bytes` each.
  int64_t kv_values_per_token() const {
    return 2 * num_hidden_layers * num_key_value_heads * head_dim;
  }
};

Result<ModelConfig> read_model_config(const formats::Checkpoint& checkpoint);

// One for each kind of metadata: a GGUF file's keys, and a config.json.
Result<ModelConfig> read_gguf_config(const formats::Checkpoint& checkpoint);
Result<ModelConfig> read_hf_config(const formats::Checkpoint& checkpoint);

// Whether the sizes make sense by themselves and with each other; `path` starts the error.
Status check_model_config(const ModelConfig& config, const std::string& path);

}  // namespace octavo::model
