// ModelConfig from the metadata of a GGUF file.
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

// Far above any real model; keeps products within 64 bits and refuses nonsense by name.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxExtent = int64_t{1} << 24;

class GgufReader {
 public:
  GgufReader(const formats::Checkpoint& checkpoint, std::string prefix)
      : metadata_(checkpoint.metadata()), path_(checkpoint.path()), prefix_(std::move(prefix)) {}

  bool has(std::string_view key) { return json_find(metadata_, full(key)) != nullptr; }

  // A count in [1, max]. Files may hold one value for each layer: accepted where all are equal.
  Result<int64_t> count(std::string_view key, int64_t max) {
    const std::string name = full(key);
    const Json* value = json_find(metadata_, name);
    if (value != nullptr && value->is_array()) return uniform(name, value->get_array(), max);
    return in_range(name, OCTAVO_TRY(json_int(metadata_, name, path_)), max);
  }

  Result<double> number(std::string_view key) {
    const std::string name = full(key);
    const double value = OCTAVO_TRY(json_double(metadata_, name, path_));
    if (!std::isfinite(value) || value <= 0) {
      return data_loss(
          format("{}: '{}' is {}, which must be a positive number", path_, name, value));
    }
    return value;
  }

  Result<std::string> text(std::string_view key) {
    return json_string(metadata_, full(key), path_);
  }

  // Warns of keys below the architecture's prefix that nothing asked for.
  void report_unread() const {
    for (const auto& item : metadata_.get_object()) {
      const std::string key(item.key().data(), item.key().size());
      if (key.starts_with(prefix_) && !read_.contains(key)) {
        log_warning("{}: '{}' is not known and has no effect", path_, key);
      }
    }
  }

  const std::string& path() const { return path_; }
  std::string full(std::string_view key) {
    std::string name = prefix_ + std::string(key);
    read_.insert(name);
    return name;
  }

 private:
  Result<int64_t> in_range(const std::string& name, int64_t value, int64_t max) const {
    if (value < 1 || value > max) {
      return data_loss(format("{}: '{}' is {}, which must lie in 1..{}", path_, name, value, max));
    }
    return value;
  }

  Result<int64_t> uniform(const std::string& name, const JsonArray& values, int64_t max) const {
    if (values.empty()) return data_loss(format("{}: '{}' is an empty array", path_, name));
    for (const Json& value : values) {
      if (!value.is_number()) return data_loss(format("{}: '{}' must hold integers", path_, name));
      if (value != values[0]) {
        return unsupported(format("{}: '{}' differs from layer to layer", path_, name));
      }
    }
    JsonObject one{{"value", values[0]}};
    return in_range(name, OCTAVO_TRY(json_int(one, "value", path_)), max);
  }

  const Json& metadata_;
  const std::string path_;
  const std::string prefix_;
  std::set<std::string> read_;
};

Status read_heads(GgufReader& reader, ModelConfig& config) {
  config.num_attention_heads = OCTAVO_TRY(reader.count("attention.head_count", kMaxExtent));
  config.num_key_value_heads = reader.has("attention.head_count_kv")
                                   ? OCTAVO_TRY(reader.count("attention.head_count_kv", kMaxExtent))
                                   : config.num_attention_heads;
  if (reader.has("attention.key_length")) {
    config.head_dim = OCTAVO_TRY(reader.count("attention.key_length", kMaxExtent));
  } else if (config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    return data_loss(format("{}: embedding_length {} is no multiple of {} attention heads",
                            reader.path(), config.hidden_size, config.num_attention_heads));
  }
  if (reader.has("attention.value_length") &&
      OCTAVO_TRY(reader.count("attention.value_length", kMaxExtent)) != config.head_dim) {
    return unsupported(format("{}: attention.value_length differs from the key's", reader.path()));
  }
  return {};
}

Status read_rope(GgufReader& reader, const formats::Checkpoint& checkpoint, ModelConfig& config) {
  config.rope.rope_theta =
      reader.has("rope.freq_base") ? OCTAVO_TRY(reader.number("rope.freq_base")) : 10000.0;
  if (reader.has("rope.dimension_count")) {
    const int64_t rotary = OCTAVO_TRY(reader.count("rope.dimension_count", kMaxExtent));
    if (rotary != config.head_dim) {
      return unsupported(format("{}: rope.dimension_count {} differs from the head size {}",
                                reader.path(), rotary, config.head_dim));
    }
  }
  if (checkpoint.find("rope_freqs.weight") != nullptr) config.rope.rope_type = RopeType::kFactors;
  // Old files have the factor alone, under another name.
  const char* old_linear = "rope.scale_linear";
  std::string type =
      reader.has("rope.scaling.type") ? OCTAVO_TRY(reader.text("rope.scaling.type")) : "none";
  const char* factor_key = "rope.scaling.factor";
  if (type == "none" && reader.has(old_linear)) {
    type = "linear";
    factor_key = old_linear;
  }
  if (type == "linear") {
    if (config.rope.rope_type == RopeType::kFactors) {
      return unsupported(
          format("{}: rope.scaling.type linear beside rope_freqs.weight", reader.path()));
    }
    config.rope.rope_type = RopeType::kLinear;
    config.rope.factor = OCTAVO_TRY(reader.number(factor_key));
  } else if (type != "none") {
    return unsupported(format("{}: '{}' is '{}', which octavo does not compute yet", reader.path(),
                              reader.full("rope.scaling.type"), type));
  }
  return {};
}

// Keys that other models of the same architecture name use and that change the result.
Status refuse_unsupported(GgufReader& reader) {
  for (const char* key :
       {"expert_count", "expert_used_count", "attention.sliding_window", "attention.clamp_kqv",
        "attention.max_alibi_bias", "attention.scale", "attention.logit_softcapping",
        "final_logit_softcapping", "logit_scale", "residual_scale", "embedding_scale",
        "attn_logit_softcapping", "rope.scaling.attn_factor"}) {
    if (!reader.has(key)) continue;
    const auto value = reader.number(key);
    if (value.ok()) {  // zero means: not used
      return unsupported(format("{}: '{}' is {}, which octavo does not compute yet", reader.path(),
                                reader.full(key), *value));
    }
  }
  return {};
}

}  // namespace

Result<ModelConfig> read_gguf_config(const formats::Checkpoint& checkpoint) {
  const std::string name =
      OCTAVO_TRY(json_string(checkpoint.metadata(), "general.architecture", checkpoint.path()));
  const Architecture* architecture = find_gguf_architecture(name);
  if (architecture == nullptr) {
    std::string known;
    for (const Architecture& row : architectures()) known += format(" {}", row.gguf_name);
    return unsupported(format("{}: the architecture '{}' is not supported; supported:{}",
                              checkpoint.path(), name, known));
  }
  GgufReader reader(checkpoint, name + ".");
  ModelConfig config;
  config.architecture = architecture->hf_name;
  config.permuted_qk = architecture->gguf_permutes_qk;
  config.num_hidden_layers = OCTAVO_TRY(reader.count("block_count", kMaxLayers));
  config.hidden_size = OCTAVO_TRY(reader.count("embedding_length", kMaxExtent));
  config.intermediate_size = OCTAVO_TRY(reader.count("feed_forward_length", kMaxExtent));
  config.max_position_embeddings = OCTAVO_TRY(reader.count("context_length", INT32_MAX));
  config.rms_norm_eps =
      static_cast<float>(OCTAVO_TRY(reader.number("attention.layer_norm_rms_epsilon")));
  OCTAVO_TRY(read_heads(reader, config));
  OCTAVO_TRY(read_rope(reader, checkpoint, config));
  OCTAVO_TRY(refuse_unsupported(reader));
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
  reader.full("vocab_size");
  config.tie_word_embeddings = checkpoint.find("output.weight") == nullptr;
  OCTAVO_TRY(check_model_config(config, checkpoint.path()));
  reader.report_unread();
  return config;
}

}  // namespace octavo::model
