// ModelConfig from the metadata of a GGUF file.
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "model/gguf_keys.h"
#include "quant/scaled_blocks.h"

namespace octavo::model {
namespace {

Result<const Architecture*> read_architecture(const formats::Checkpoint& checkpoint) {
  const std::string name =
      OCTAVO_TRY(json_string(checkpoint.metadata(), "general.architecture", checkpoint.path()));
  GgufKeys keys(checkpoint, name + ".");
  const bool has_experts = OCTAVO_TRY(keys.count_or_none("expert_count", kMaxExperts)) > 0;
  if (const Architecture* found = find_gguf_architecture(name, has_experts)) return found;
  if (find_gguf_architecture(name, !has_experts) != nullptr) {
    return unsupported(format(
        "{}: '{}' makes this a model {} experts, which the architecture '{}' "
        "does not have here",
        checkpoint.path(), keys.full("expert_count"), has_experts ? "with" : "without", name));
  }
  std::string known;
  std::string_view last;
  for (const Architecture& row : architectures()) {  // rows of one name stand together
    if (row.gguf_name != last && !row.gguf_name.empty()) known += format(" {}", row.gguf_name);
    last = row.gguf_name;
  }
  return unsupported(format("{}: the architecture '{}' is not supported; supported:{}",
                            checkpoint.path(), name, known));
}

Status read_heads(GgufKeys& keys, ModelConfig& config) {
  config.num_attention_heads = OCTAVO_TRY(keys.count("attention.head_count", kMaxExtent));
  config.num_key_value_heads = keys.has("attention.head_count_kv")
                                   ? OCTAVO_TRY(keys.count("attention.head_count_kv", kMaxExtent))
                                   : config.num_attention_heads;
  if (keys.has("attention.key_length")) {
    config.head_dim = OCTAVO_TRY(keys.count("attention.key_length", kMaxExtent));
  } else if (config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    return data_loss(format("{}: embedding_length {} is no multiple of {} attention heads",
                            keys.path(), config.hidden_size, config.num_attention_heads));
  }
  if (keys.has("attention.value_length") &&
      OCTAVO_TRY(keys.count("attention.value_length", kMaxExtent)) != config.head_dim) {
    return unsupported(format("{}: attention.value_length differs from the key's", keys.path()));
  }
  config.rotary_dim = config.head_dim;
  return {};
}

// What multiplies and caps scores and logits. The file does not say that the 27B models of Gemma
// divide scores by the root of hidden_size / num_attention_heads; their number of layers does.
Status read_scales(GgufKeys& keys, ModelConfig& config) {
  constexpr int64_t kGemma2Layers27B = 46;
  constexpr int64_t kGemma3Layers27B = 62;
  double divisor = static_cast<double>(config.head_dim);
  if (config.traits.scaled_embedding) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    config.final_logit_softcapping =
        static_cast<float>(OCTAVO_TRY(keys.number_or_none("final_logit_softcapping")));
    const bool gemma3 = config.traits.local_rope;
    if (config.num_hidden_layers == (gemma3 ? kGemma3Layers27B : kGemma2Layers27B)) {
      divisor =
          static_cast<double>(config.hidden_size) / static_cast<double>(config.num_attention_heads);
    }
  }
  if (config.traits.capped_scores) {
    config.attn_logit_softcapping =
        static_cast<float>(OCTAVO_TRY(keys.number_or_none("attn_logit_softcapping")));
  }
  config.attention_scale = static_cast<float>(1 / std::sqrt(divisor));
  return {};
}

Status read_vocabulary(const formats::Checkpoint& checkpoint, ModelConfig& config) {
  const formats::TensorInfo* embedding = checkpoint.find("token_embd.weight");
  if (embedding == nullptr) {
    return data_loss(format("{}: tensor 'token_embd.weight' is missing", checkpoint.path()));
  }
  if (embedding->shape.size() != 2) {
    return data_loss(
        format("{}: tensor 'token_embd.weight' has shape {}, which must have 2 extents",
               checkpoint.path(), shape_string(embedding->shape)));
  }
  config.vocab_size = embedding->shape[0];  // the key vocab_size is a hint only
  config.tie_word_embeddings = checkpoint.find("output.weight") == nullptr;
  return {};
}

}  // namespace

Result<ModelConfig> read_gguf_config(const formats::Checkpoint& checkpoint) {
  const Architecture& architecture = *OCTAVO_TRY(read_architecture(checkpoint));
  GgufKeys keys(checkpoint, std::string(architecture.gguf_name) + ".");
  ModelConfig config;
  config.architecture = architecture.hf_name;
  config.traits = architecture.traits;
  config.traits.adjacent_pairs = architecture.traits.gguf_adjacent_pairs;
  config.traits.norms_plus_one = false;  // added when the file was made
  config.num_hidden_layers = OCTAVO_TRY(keys.count("block_count", kMaxLayers));
  config.hidden_size = OCTAVO_TRY(keys.count("embedding_length", kMaxExtent));
  config.intermediate_size = OCTAVO_TRY(keys.count("feed_forward_length", kMaxExtent));
  config.max_position_embeddings = OCTAVO_TRY(keys.count("context_length", INT32_MAX));
  config.rms_norm_eps =
      static_cast<float>(OCTAVO_TRY(keys.number("attention.layer_norm_rms_epsilon")));
  OCTAVO_TRY(read_heads(keys, config));
  OCTAVO_TRY(read_scales(keys, config));
  OCTAVO_TRY(read_gguf_rope(keys, checkpoint, config));
  OCTAVO_TRY(read_gguf_layers(keys, config));
  OCTAVO_TRY(read_vocabulary(checkpoint, config));
  keys.full("vocab_size");
  config.quantization = quant::find_scaled_blocks(checkpoint.tensors());
  OCTAVO_TRY(check_model_config(config, checkpoint.path()));
  OCTAVO_TRY(keys.judge_rest());
  return config;
}

}  // namespace octavo::model
