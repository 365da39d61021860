// ModelConfig from a config.json, in the spelling of transformers 4 (rope_theta, rope_scaling,
// torch_dtype) or 5 (rope_parameters, dtype).
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/log.h"
#include "model/architectures.h"
#include "model/config.h"

namespace octavo::model {
namespace {

// Keys that are read below, and keys that change nothing about the result of a forward pass.
const std::set<std::string_view>& known_keys() {
  static const std::set<std::string_view> keys = {
      "architectures", "model_type", "num_hidden_layers", "hidden_size", "intermediate_size",
      "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
      "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters",
      "tie_word_embeddings", "hidden_act", "attention_bias", "mlp_bias", "quantization_config",
      // without effect
      "_name_or_path", "attention_dropout", "bos_token_id", "dtype", "eos_token_id",
      "initializer_range", "pad_token_id", "pretraining_tp", "torch_dtype", "transformers_version",
      "use_cache", "unk_token_id", "chunk_size_feed_forward", "is_decoder", "layer_types",
      "rope_interleaved", "is_llama_config", "transformers.js_config"};
  return keys;
}

class HfReader {
 public:
  HfReader(const Json& config, std::string source) : config_(config), source_(std::move(source)) {}

  bool has(std::string_view key) const { return json_find(config_, key) != nullptr; }
  Result<int64_t> integer(std::string_view key) const { return json_int(config_, key, source_); }
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const {
    if (!has(key)) return otherwise;
    return integer(key);
  }
  Result<bool> flag_or(std::string_view key, bool otherwise) const {
    if (!has(key)) return otherwise;
    return json_bool(config_, key, source_);
  }
  Result<std::string> text_or(std::string_view key, std::string_view otherwise) const {
    if (!has(key)) return std::string(otherwise);
    return json_string(config_, key, source_);
  }
  Result<double> positive(std::string_view key) const {
    const double value = OCTAVO_TRY(json_double(config_, key, source_));
    if (!std::isfinite(value) || value <= 0) {
      return data_loss(
          format("{}: '{}' is {}, which must be a positive number", source_, key, value));
    }
    return value;
  }
  Result<double> positive_or(std::string_view key, double otherwise) const {
    if (!has(key)) return otherwise;
    return positive(key);
  }
  const Json& config() const { return config_; }
  const std::string& source() const { return source_; }

 private:
  const Json& config_;
  std::string source_;
};

Result<RopeType> parse_rope_type(const std::string& name, const std::string& source) {
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "dynamic") return RopeType::kDynamic;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  return unsupported(format("{}: rope type '{}' is not known", source, name));
}

Status check_rope_keys(const HfReader& rope) {
  static const std::set<std::string_view> known = {"rope_type",
                                                   "type",
                                                   "rope_theta",
                                                   "factor",
                                                   "original_max_position_embeddings",
                                                   "low_freq_factor",
                                                   "high_freq_factor",
                                                   "beta_fast",
                                                   "beta_slow",
                                                   "truncate",
                                                   "attention_factor",
                                                   "mscale",
                                                   "mscale_all_dim",
                                                   "partial_rotary_factor"};
  for (const auto& item : rope.config().get_object()) {
    const std::string_view key(item.key().data(), item.key().size());
    if (!known.contains(key)) {
      return unsupported(
          format("{}: '{}' is not known, and may change the result", rope.source(), key));
    }
  }
  if (rope.has("partial_rotary_factor") &&
      OCTAVO_TRY(rope.positive("partial_rotary_factor")) != 1.0) {
    return unsupported(format("{}: 'partial_rotary_factor' is not supported for this architecture",
                              rope.source()));
  }
  return {};
}

// `rope` is the object under rope_scaling or rope_parameters.
Status read_rope_object(const HfReader& rope, const ModelConfig& config, RopeParameters& out) {
  OCTAVO_TRY(check_rope_keys(rope));
  const std::string old_name = OCTAVO_TRY(rope.text_or("type", "default"));
  const std::string name = OCTAVO_TRY(rope.text_or("rope_type", old_name));
  out.rope_type = OCTAVO_TRY(parse_rope_type(name, rope.source()));
  out.rope_theta = OCTAVO_TRY(rope.positive_or("rope_theta", out.rope_theta));
  if (out.rope_type == RopeType::kDefault) return {};
  out.factor = OCTAVO_TRY(rope.positive("factor"));
  out.original_max_position_embeddings = OCTAVO_TRY(rope.positive_or(
      "original_max_position_embeddings", static_cast<double>(config.max_position_embeddings)));
  if (out.rope_type == RopeType::kLlama3) {
    out.low_freq_factor = OCTAVO_TRY(rope.positive("low_freq_factor"));
    out.high_freq_factor = OCTAVO_TRY(rope.positive("high_freq_factor"));
    OCTAVO_TRY(rope.positive("original_max_position_embeddings"));
  }
  if (out.rope_type == RopeType::kYarn) {
    out.beta_fast = OCTAVO_TRY(rope.positive_or("beta_fast", 32));
    out.beta_slow = OCTAVO_TRY(rope.positive_or("beta_slow", 1));
    out.truncate = OCTAVO_TRY(rope.flag_or("truncate", true));
    const double mscale = OCTAVO_TRY(rope.positive_or("mscale", 0));
    const double mscale_all_dim = OCTAVO_TRY(rope.positive_or("mscale_all_dim", 0));
    out.attention_factor = OCTAVO_TRY(rope.positive_or(
        "attention_factor", yarn_attention_factor(out.factor, mscale, mscale_all_dim)));
  }
  return {};
}

Status read_rope(const HfReader& reader, ModelConfig& config) {
  config.rope.rope_theta = OCTAVO_TRY(reader.positive_or("rope_theta", 10000));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* object = json_find(reader.config(), key);
    if (object == nullptr) continue;
    const std::string source = format("{}: {}", reader.source(), key);
    if (!object->is_object()) return data_loss(format("{} must be an object", source));
    OCTAVO_TRY(read_rope_object(HfReader(*object, source), config, config.rope));
  }
  return {};
}

Status refuse_unsupported(const HfReader& reader) {
  const std::string act = OCTAVO_TRY(reader.text_or("hidden_act", "silu"));
  if (act != "silu") {
    return unsupported(
        format("{}: 'hidden_act' is '{}'; octavo computes 'silu'", reader.source(), act));
  }
  if (reader.has("quantization_config")) {
    return unsupported(
        format("{}: 'quantization_config': quantised safetensors are not supported "
               "yet; use a GGUF file of the model",
               reader.source()));
  }
  for (const auto& item : reader.config().get_object()) {
    const std::string_view key(item.key().data(), item.key().size());
    if (!known_keys().contains(key)) {
      log_warning("{}: '{}' is not known and has no effect", reader.source(), key);
    }
  }
  return {};
}

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

}  // namespace

Result<ModelConfig> read_hf_config(const formats::Checkpoint& checkpoint) {
  const HfReader reader(checkpoint.metadata().at("config"),
                        format("{}/config.json", checkpoint.path()));
  ModelConfig config;
  config.architecture = OCTAVO_TRY(read_architecture(reader))->hf_name;
  config.num_hidden_layers = OCTAVO_TRY(reader.integer("num_hidden_layers"));
  config.hidden_size = OCTAVO_TRY(reader.integer("hidden_size"));
  config.intermediate_size = OCTAVO_TRY(reader.integer("intermediate_size"));
  config.num_attention_heads = OCTAVO_TRY(reader.integer("num_attention_heads"));
  config.num_key_value_heads =
      OCTAVO_TRY(reader.integer_or("num_key_value_heads", config.num_attention_heads));
  config.vocab_size = OCTAVO_TRY(reader.integer("vocab_size"));
  config.max_position_embeddings = OCTAVO_TRY(reader.integer("max_position_embeddings"));
  config.rms_norm_eps = static_cast<float>(OCTAVO_TRY(reader.positive("rms_norm_eps")));
  config.tie_word_embeddings = OCTAVO_TRY(reader.flag_or("tie_word_embeddings", false));
  if (reader.has("head_dim")) {
    config.head_dim = OCTAVO_TRY(reader.integer("head_dim"));
  } else if (config.num_attention_heads > 0 &&
             config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    return data_loss(format("{}: 'hidden_size' {} is no multiple of {} 'num_attention_heads'",
                            reader.source(), config.hidden_size, config.num_attention_heads));
  }
  OCTAVO_TRY(check_model_config(config, reader.source()));
  OCTAVO_TRY(read_rope(reader, config));
  OCTAVO_TRY(refuse_unsupported(reader));
  return config;
}

}  // namespace octavo::model
