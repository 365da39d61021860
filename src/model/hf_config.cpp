// ModelConfig from a config.json, in the spelling of transformers 4 (rope_theta, rope_scaling,
// torch_dtype) or 5 (rope_parameters, dtype).
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "model/hf_reader.h"

namespace octavo::model {
namespace {

Result<const Architecture*> read_architecture(const HfReader& reader) {
  const JsonArray& names =
      *OCTAVO_TRY(json_array(reader.config(), "architectures", reader.source()));
  std::string listed;
  for (const Json& name : names) {
    if (!name.is_string()) continue;
    const std::string_view text = to_view(name.get_string());
    if (const Architecture* found = find_hf_architecture(text)) return found;
    listed += format(" {}", text);
  }
  std::string known;
  for (const Architecture& row : architectures()) known += format(" {}", row.hf_name);
  return unsupported(format("{}: the architecture{} is not supported; supported:{}",
                            reader.source(), listed, known));
}

Status read_quantization(const HfReader& top, const HfReader& text, ModelConfig& config) {
  for (const std::string_view key : quant::kConfigKeys) {
    for (const HfReader* reader : {&top, &text}) reader->has(key);  // which marks it as read
  }
  const Json* found = quant::find_quantization_config(top.config());
  if (found == nullptr) return {};
  config.quantization =
      OCTAVO_TRY(quant::read_scheme(*found, format("{}: quantization_config", top.source())));
  return {};
}

Status read_sizes(const HfReader& reader, ModelConfig& config) {
  config.num_hidden_layers = OCTAVO_TRY(reader.integer("num_hidden_layers"));
  config.hidden_size = OCTAVO_TRY(reader.integer("hidden_size"));
  // Llama 4 calls the size of its experts intermediate_size.
  const bool llama4 = config.traits.moe == MoeKind::kLlama4;
  config.intermediate_size =
      OCTAVO_TRY(reader.integer(llama4 ? "intermediate_size_mlp" : "intermediate_size"));
  config.num_attention_heads = OCTAVO_TRY(reader.integer("num_attention_heads"));
  config.num_key_value_heads =
      OCTAVO_TRY(reader.integer_or("num_key_value_heads", config.num_attention_heads));
  config.vocab_size = OCTAVO_TRY(reader.integer("vocab_size"));
  config.max_position_embeddings = OCTAVO_TRY(reader.integer("max_position_embeddings"));
  if (reader.has("head_dim")) {
    config.head_dim = OCTAVO_TRY(reader.integer("head_dim"));
  } else if (config.num_attention_heads > 0 &&
             config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    return data_loss(format("{}: 'hidden_size' {} is no multiple of {} 'num_attention_heads'",
                            reader.source(), config.hidden_size, config.num_attention_heads));
  }
  config.rotary_dim = config.head_dim;  // until the rotation is read
  return check_model_config(config, reader.source());
}

Status read_activation(const HfReader& reader, Traits& traits) {
  const char* key = reader.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  if (!reader.has(key)) return {};
  const std::string name = OCTAVO_TRY(reader.text_or(key, ""));
  if (name == "silu") {
    traits.activation = ops::Activation::kSilu;
  } else if (name == "gelu_pytorch_tanh") {
    traits.activation = ops::Activation::kGeluTanh;
  } else {
    return unsupported(format("{}: '{}' is '{}'; octavo computes 'silu' and 'gelu_pytorch_tanh'",
                              reader.source(), key, name));
  }
  return {};
}

// What multiplies and caps scores and logits.
Status read_scales(const HfReader& reader, ModelConfig& config) {
  double divisor = static_cast<double>(config.head_dim);
  if (config.traits.scaled_embedding) {  // Gemma
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    divisor = OCTAVO_TRY(reader.positive_or("query_pre_attn_scalar", divisor));
    config.final_logit_softcapping =
        static_cast<float>(OCTAVO_TRY(reader.positive_or("final_logit_softcapping", 0)));
  }
  if (config.traits.capped_scores) {
    config.attn_logit_softcapping =
        static_cast<float>(OCTAVO_TRY(reader.positive_or("attn_logit_softcapping", 0)));
  }
  config.attention_scale = static_cast<float>(1 / std::sqrt(divisor));
  return {};
}

}  // namespace

Result<ModelConfig> read_hf_config(const formats::Checkpoint& checkpoint) {
  const HfReader top(checkpoint.metadata().at("config"),
                     format("{}/config.json", checkpoint.path()));
  const Architecture& architecture = *OCTAVO_TRY(read_architecture(top));
  const bool nested = !architecture.text_prefix.empty();
  const Json* text = nested ? top.find("text_config") : &top.config();
  if (text == nullptr || !text->is_object()) {
    return data_loss(format("{}: 'text_config' must be an object", top.source()));
  }
  const HfReader reader(*text, nested ? format("{}: text_config", top.source()) : top.source());

  ModelConfig config;
  OCTAVO_TRY(read_quantization(top, reader, config));
  config.architecture = architecture.hf_name;
  config.traits = architecture.traits;
  OCTAVO_TRY(read_sizes(reader, config));
  config.rms_norm_eps = static_cast<float>(OCTAVO_TRY(reader.positive("rms_norm_eps")));
  const bool tied =
      OCTAVO_TRY(reader.flag_or("tie_word_embeddings", config.traits.tied_by_default));
  config.tie_word_embeddings = nested ? OCTAVO_TRY(top.flag_or("tie_word_embeddings", tied)) : tied;
  config.traits.qkv_bias = OCTAVO_TRY(reader.flag_or("attention_bias", config.traits.qkv_bias));
  OCTAVO_TRY(read_activation(reader, config.traits));
  OCTAVO_TRY(read_scales(reader, config));
  OCTAVO_TRY(read_hf_rope(reader, config));
  OCTAVO_TRY(read_hf_layers(reader, config));
  OCTAVO_TRY(reader.judge_rest());
  if (nested) OCTAVO_TRY(top.judge_rest());
  return config;
}

}  // namespace octavo::model
