#include "model/config.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {
namespace {

struct Field {
  const char* name;
  int64_t value;
  int64_t max;
};

}  // namespace

Status check_model_config(const ModelConfig& c, const std::string& path) {
  for (const Field& field : {Field{"num_hidden_layers", c.num_hidden_layers, kMaxLayers},
                             {"hidden_size", c.hidden_size, kMaxExtent},
                             {"intermediate_size", c.intermediate_size, kMaxExtent},
                             {"num_attention_heads", c.num_attention_heads, kMaxExtent},
                             {"num_key_value_heads", c.num_key_value_heads, kMaxExtent},
                             {"head_dim", c.head_dim, kMaxExtent},
                             {"vocab_size", c.vocab_size, INT32_MAX},
                             {"max_position_embeddings", c.max_position_embeddings, INT32_MAX}}) {
    if (field.value < 1 || field.value > field.max) {
      return data_loss(format("{}: '{}' is {}, which must lie in 1..{}", path, field.name,
                              field.value, field.max));
    }
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return data_loss(format("{}: num_attention_heads is {}, no multiple of num_key_value_heads, {}",
                            path, c.num_attention_heads, c.num_key_value_heads));
  }
  if (c.head_dim % 2 != 0) {
    return data_loss(format("{}: the head size {} is odd", path, c.head_dim));
  }
  return {};
}

int64_t ModelConfig::max_model_len() const {
  if (rope.rope_type != RopeType::kDynamic) return max_position_embeddings;
  const double stretched = rope.factor * static_cast<double>(max_position_embeddings);
  return static_cast<int64_t>(std::min<double>(stretched, INT32_MAX));
}

int64_t ModelConfig::widest_row() const {
  return std::max({hidden_size, intermediate_size, num_attention_heads * head_dim,
                   moe.intermediate_size, moe.shared_intermediate_size});
}

Result<ModelConfig> read_model_config(const formats::Checkpoint& checkpoint) {
  if (checkpoint.format_name() == "gguf") return read_gguf_config(checkpoint);
  return read_hf_config(checkpoint);
}

}  // namespace octavo::model
