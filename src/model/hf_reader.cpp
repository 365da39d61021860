#include "model/hf_reader.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::model {
namespace {

// Without effect on a forward pass of any architecture here.
constexpr std::string_view kWithoutEffect[] = {"architectures",
                                               "model_type",
                                               "_name_or_path",
                                               "attention_dropout",
                                               "mlp_bias",
                                               "bos_token_id",
                                               "dtype",
                                               "eos_token_id",
                                               "initializer_range",
                                               "pad_token_id",
                                               "pretraining_tp",
                                               "torch_dtype",
                                               "transformers_version",
                                               "use_cache",
                                               "unk_token_id",
                                               "chunk_size_feed_forward",
                                               "is_decoder",
                                               "is_llama_config",
                                               "transformers.js_config",
                                               "auto_map",
                                               "embd_pdrop",
                                               "resid_pdrop",
                                               "cache_implementation",
                                               "output_router_logits",
                                               "router_aux_loss_coef",
                                               "router_jitter_noise",
                                               "hidden_dropout",
                                               "max_window_layers",
                                               "_sliding_window_pattern",
                                               "sliding_window_pattern",
                                               "original_max_position_embeddings",
                                               "no_rope_layer_interval",
                                               "interleave_moe_layer_step",
                                               "intermediate_size_mlp",
                                               "for_llm_compressor",
                                               "_attn_implementation_autoset",
                                               "unsloth_fixed",
                                               "_unsloth_fixed",
                                               "layer_norm_eps",
                                               "hidden_act",
                                               "boi_token_index",
                                               "eoi_token_index",
                                               "image_token_index",
                                               "vision_config"};

// With effect wherever they are implemented; what they hold when they have none.
struct Influence {
  std::string_view key;
  double neutral;
};
constexpr Influence kInfluences[] = {{"attn_logit_softcapping", 0},
                                     {"final_logit_softcapping", 0},
                                     {"logit_scale", 1},
                                     {"logits_scaling", 1},
                                     {"residual_multiplier", 1},
                                     {"embedding_multiplier", 1},
                                     {"attention_multiplier", 0},
                                     {"query_pre_attn_scalar", 0},
                                     {"sliding_window", 0},
                                     {"use_sliding_window", 0},
                                     {"attention_chunk_size", 0},
                                     {"num_experts", 0},
                                     {"num_local_experts", 0},
                                     {"n_routed_experts", 0},
                                     {"num_experts_per_tok", 0},
                                     {"shared_expert_intermediate_size", 0},
                                     {"n_shared_experts", 0},
                                     {"mlp_only_layers", 0},
                                     {"partial_rotary_factor", 1},
                                     {"rotary_pct", 1},
                                     {"rope_local_base_freq", 0},
                                     {"rope_interleaved", 0},
                                     {"no_rope_layers", 0},
                                     {"clip_qkv", 0},
                                     {"use_qk_norm", 0},
                                     {"qk_layernorm", 0},
                                     {"attn_temperature_tuning", 0},
                                     {"alibi", 0},
                                     {"use_bidirectional_attention", 0},
                                     {"scale_emb", 1},
                                     {"scale_depth", 0},
                                     {"dim_model_base", 0},
                                     {"layer_types", 0},
                                     {"norm_topk_prob", 0},
                                     {"use_mrope", 0}};

bool is_neutral(const Json& value, double neutral) {
  if (value.is_null()) return true;
  if (value.is_bool()) return !value.get_bool();
  if (value.is_number()) return value.to_number<double>() == neutral;
  if (value.is_array()) return value.get_array().empty();
  return false;
}

}  // namespace

Result<int64_t> HfReader::integer(std::string_view key) const {
  read_.emplace(key);
  return json_int(config_, key, source_);
}

Result<int64_t> HfReader::integer_or(std::string_view key, int64_t otherwise) const {
  if (!has(key)) return otherwise;
  return integer(key);
}

Result<int64_t> HfReader::count(std::string_view key, int64_t max) const {
  const int64_t value = OCTAVO_TRY(integer(key));
  if (value < 1 || value > max) {
    return data_loss(format("{}: '{}' is {}, which must lie in 1..{}", source_, key, value, max));
  }
  return value;
}

Result<bool> HfReader::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  return json_bool(config_, key, source_);
}

Result<std::string> HfReader::text_or(std::string_view key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  return json_string(config_, key, source_);
}

Result<double> HfReader::positive(std::string_view key) const {
  read_.emplace(key);
  const double value = OCTAVO_TRY(json_double(config_, key, source_));
  if (!std::isfinite(value) || value <= 0) {
    return data_loss(
        format("{}: '{}' is {}, which must be a positive number", source_, key, value));
  }
  return value;
}

Result<double> HfReader::positive_or(std::string_view key, double otherwise) const {
  if (!has(key)) return otherwise;
  return positive(key);
}

Result<const JsonArray*> HfReader::array(std::string_view key, int64_t min_size,
                                         int64_t max_size) const {
  read_.emplace(key);
  const JsonArray* values = OCTAVO_TRY(json_array(config_, key, source_));
  const auto size = static_cast<int64_t>(values->size());
  if (size < min_size || size > max_size) {
    return data_loss(format("{}: '{}' has {} elements, which must be {}{}", source_, key, size,
                            min_size == max_size ? "" : "at most ", max_size));
  }
  return values;
}

Result<std::vector<std::string>> HfReader::texts(std::string_view key, int64_t size) const {
  std::vector<std::string> texts;
  for (const Json& value : *OCTAVO_TRY(array(key, size, size))) {
    if (!value.is_string()) return data_loss(format("{}: '{}' must hold strings", source_, key));
    texts.emplace_back(to_view(value.get_string()));
  }
  return texts;
}

Result<std::vector<double>> HfReader::positives(std::string_view key, int64_t size) const {
  std::vector<double> values;
  for (const Json& value : *OCTAVO_TRY(array(key, size, size))) {
    const double number = value.is_number() ? value.to_number<double>() : 0;
    if (!std::isfinite(number) || number <= 0) {
      return data_loss(format("{}: '{}' must hold positive numbers", source_, key));
    }
    values.push_back(number);
  }
  return values;
}

Result<std::vector<int64_t>> HfReader::integers(std::string_view key, int64_t max_size) const {
  std::vector<int64_t> values;
  for (const Json& value : *OCTAVO_TRY(array(key, 0, max_size))) {
    if (!value.is_int64()) return data_loss(format("{}: '{}' must hold integers", source_, key));
    values.push_back(value.get_int64());
  }
  return values;
}

Status HfReader::judge_rest() const {
  for (const auto& item : config_.get_object()) {
    const std::string_view key(item.key().data(), item.key().size());
    if (read_.contains(key)) continue;
    const auto* influence = std::find_if(std::begin(kInfluences), std::end(kInfluences),
                                         [&](const Influence& row) { return row.key == key; });
    if (influence != std::end(kInfluences)) {
      if (is_neutral(item.value(), influence->neutral)) continue;
      return unsupported(
          format("{}: '{}' is {}, which octavo does not compute for this architecture", source_,
                 key, dump_json(item.value())));
    }
    const auto* end = std::end(kWithoutEffect);
    if (std::find(std::begin(kWithoutEffect), end, key) == end) {
      log_warning("{}: '{}' is not known and has no effect", source_, key);
    }
  }
  return {};
}

}  // namespace octavo::model
