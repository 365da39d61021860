// ModelConfig: what a checkpoint's metadata says about the model, in Hugging Face's spelling,
// checked. A value that would change the result and is not implemented is an error, never a
// default.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/rope.h"
#include "model/traits.h"
#include "octavo/status.h"
#include "ops/moe_args.h"
#include "quant/scheme.h"

namespace octavo::model {

// Which of the model's rotations a layer applies to queries and keys.
enum class LayerRope : uint8_t { kNone, kGlobal, kLocal };

struct LayerConfig {
  LayerRope rope = LayerRope::kGlobal;
  int64_t sliding_window = 0;        // positions that a token sees, its own included; 0: all
  int64_t attention_chunk_size = 0;  // it sees only its own chunk; 0: all
  bool moe = false;
};

// Sizes of the experts; their layers are those with LayerConfig::moe.
struct MoeConfig {
  ops::Routing routing;  // num_experts 0: the model has none
  int64_t intermediate_size = 0;
  int64_t shared_intermediate_size = 0;  // 0: no shared expert
};

struct ModelConfig {
  std::string architecture;  // as in config.json's "architectures", e.g. "LlamaForCausalLM"
  Traits traits;             // what that fixes, and what the file's format changes about it
  int64_t num_hidden_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // of dense layers
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // the first values of a head, which are rotated
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  RopeParameters rope;
  std::optional<RopeParameters> local_rope;
  bool tie_word_embeddings = false;
  float embedding_scale = 1;
  float attention_scale = 0;          // of q · k; usually head_dim^-0.5
  float attn_logit_softcapping = 0;   // 0: none
  float final_logit_softcapping = 0;  // 0: none
  float attn_scale = 0;               // of queries in layers without rotation; 0: none
  float floor_scale = 1;
  MoeConfig moe;
  std::vector<LayerConfig> layers;                    // [num_hidden_layers]
  std::shared_ptr<const quant::Scheme> quantization;  // null: linears are plain tensors

  // The most values in a row of activations that a matrix is multiplied with.
  int64_t widest_row() const;

  // Rows of keys and of values, of head_dim, that one token leaves in all layers.
  int64_t kv_rows_per_token() const { return 2 * num_hidden_layers * num_key_value_heads; }

  // Makes layer `i` a local one.
  void set_window(int64_t i, int64_t window) {
    layers[i].sliding_window = window;
    if (local_rope) layers[i].rope = LayerRope::kLocal;
  }

  // The longest context that the frequencies allow.
  int64_t max_model_len() const;
};

// Far above any real model; keeps products within 64 bits and refuses nonsense by name.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxExtent = int64_t{1} << 24;
inline constexpr int64_t kMaxExperts = 65536;

Result<ModelConfig> read_model_config(const formats::Checkpoint& checkpoint);

// One for each kind of metadata: a GGUF file's keys, and a config.json.
Result<ModelConfig> read_gguf_config(const formats::Checkpoint& checkpoint);
Result<ModelConfig> read_hf_config(const formats::Checkpoint& checkpoint);

// Whether the sizes make sense by themselves and with each other; `path` starts the error.
Status check_model_config(const ModelConfig& config, const std::string& path);

}  // namespace octavo::model
