// ModelConfig: what a checkpoint's metadata says about the model, in Hugging Face's spelling,
// checked. A value that would change the result and is not implemented is an error, never a
// default.
#pragma once

#include <cstdint>
#include <string>

#include "formats/checkpoint.h"
#include "octavo/status.h"

namespace octavo::model {

enum class RopeType {
  kDefault,  // inv_freq[i] = rope_theta^(-2i / rotary_dim)
  kLinear,   // the same divided by rope_factor
  kFactors,  // the same divided by a factor for each frequency: the tensor rope_freqs.weight, which
             // is how GGUF stores rope_scaling "llama3"
};

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
  double rope_theta = 0;
  RopeType rope_type = RopeType::kDefault;
  double rope_factor = 1;
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

}  // namespace octavo::model
