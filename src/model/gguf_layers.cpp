// What a GGUF file says of rotation and of single layers. llama.cpp leaves much of it out of the
// metadata and fixes it by architecture; so does this file.
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "model/gguf_keys.h"

namespace octavo::model {
namespace {

constexpr int64_t kLlama4Chunk = 8192;
constexpr int64_t kLlama4NoRopeInterval = 4;
constexpr int64_t kLlama4ExpertsWithoutQkNorm = 128;  // Maverick
constexpr double kGemma3LocalTheta = 10000;

Status check_rotary_dim(GgufKeys& keys, ModelConfig& config) {
  if (!keys.has("rope.dimension_count")) return {};
  const int64_t rotary = OCTAVO_TRY(keys.count("rope.dimension_count", kMaxExtent));
  const bool partial = config.traits.partial_rotary && rotary < config.head_dim && rotary % 2 == 0;
  if (rotary != config.head_dim && !partial) {
    return unsupported(format("{}: rope.dimension_count {} differs from the head size {}",
                              keys.path(), rotary, config.head_dim));
  }
  config.rotary_dim = rotary;
  return {};
}

Status read_yarn(GgufKeys& keys, RopeParameters& rope) {
  rope.rope_type = RopeType::kYarn;
  rope.factor = OCTAVO_TRY(keys.number("rope.scaling.factor"));
  rope.original_max_position_embeddings =
      OCTAVO_TRY(keys.number("rope.scaling.original_context_length"));
  rope.beta_fast = OCTAVO_TRY(keys.number_or("rope.scaling.yarn_beta_fast", 32));
  rope.beta_slow = OCTAVO_TRY(keys.number_or("rope.scaling.yarn_beta_slow", 1));
  rope.attention_factor = OCTAVO_TRY(keys.number_or("rope.scaling.attn_factor", 1)) *
                          yarn_attention_factor(rope.factor, 0, 0);
  return {};
}

// The lists of factors are tensors, which the loader takes.
Status read_longrope(GgufKeys& keys, const formats::Checkpoint& checkpoint, ModelConfig& config) {
  RopeParameters& rope = config.rope;
  rope.rope_type = RopeType::kLongrope;
  const auto trained = static_cast<double>(config.max_position_embeddings);
  rope.original_max_position_embeddings =
      OCTAVO_TRY(keys.number_or("rope.scaling.original_context_length", trained));
  rope.attention_factor = OCTAVO_TRY(keys.number_or("rope.scaling.attn_factor", 1));
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (checkpoint.find(name) == nullptr) {
      return data_loss(format("{}: tensor '{}' is missing", keys.path(), name));
    }
  }
  return {};
}

// Where layer i of `period` is the last, and differs from those before it.
bool is_last_of(int64_t i, int64_t period) {
  return (i + 1) % period == 0;
}

Status read_windows(GgufKeys& keys, ModelConfig& config) {
  const WindowRule rule = config.traits.windows;
  if (rule == WindowRule::kNone || rule == WindowRule::kFromLayer) return {};
  const int64_t window = OCTAVO_TRY(keys.count_or_none("attention.sliding_window", INT32_MAX));
  if (rule == WindowRule::kAlternating && window == 0) {
    return data_loss(
        format("{}: '{}' is missing", keys.path(), keys.full("attention.sliding_window")));
  }
  int64_t period = config.traits.local_period;
  if (keys.has("attention.sliding_window_pattern")) {
    period = OCTAVO_TRY(keys.count("attention.sliding_window_pattern", kMaxLayers));
  }
  for (int64_t i = 0; window > 0 && i < config.num_hidden_layers; ++i) {
    if (period == 0 || !is_last_of(i, period)) config.set_window(i, window);
  }
  return {};
}

// A window of 0 means that all layers are alike: they see everything and rotate.
Status read_llama4_layers(GgufKeys& keys, ModelConfig& config) {
  int64_t chunk = kLlama4Chunk;
  if (keys.has("attention.sliding_window")) {
    chunk = OCTAVO_TRY(keys.count_or_none("attention.sliding_window", INT32_MAX));
  }
  int64_t period = kLlama4NoRopeInterval;
  if (keys.has("attention.sliding_window_pattern")) {
    period = OCTAVO_TRY(keys.count("attention.sliding_window_pattern", kMaxLayers));
  }
  for (int64_t i = 0; chunk > 0 && i < config.num_hidden_layers; ++i) {
    LayerConfig& layer = config.layers[i];
    if (!is_last_of(i, period)) layer.attention_chunk_size = chunk;
    if (is_last_of(i, kLlama4NoRopeInterval)) layer.rope = LayerRope::kNone;
  }
  config.attn_scale =
      static_cast<float>(OCTAVO_TRY(keys.number_or("attention.temperature_scale", 0.1)));
  config.floor_scale =
      static_cast<float>(OCTAVO_TRY(keys.number_or("attention.temperature_length", 8192)));
  if (config.moe.routing.num_experts != kLlama4ExpertsWithoutQkNorm) {
    config.traits.qk_norm = ops::QkNorm::kPerHead;
    config.traits.qk_norm_weights = false;
  }
  return {};
}

Status read_moe(GgufKeys& keys, ModelConfig& config) {
  ops::Routing& routing = config.moe.routing;
  routing.num_experts = OCTAVO_TRY(keys.count("expert_count", kMaxExperts));
  routing.top_k = OCTAVO_TRY(keys.count("expert_used_count", routing.num_experts));
  config.moe.intermediate_size = config.intermediate_size;
  if (keys.has("expert_feed_forward_length")) {
    config.moe.intermediate_size = OCTAVO_TRY(keys.count("expert_feed_forward_length", kMaxExtent));
  }
  int64_t step = 1;
  if (config.traits.moe == MoeKind::kLlama4) {
    routing.score = ops::RouterScore::kSigmoid;
    routing.weighs_input = true;
    config.moe.shared_intermediate_size = config.moe.intermediate_size;
    step = OCTAVO_TRY(keys.count("interleave_moe_layer_step", kMaxLayers));
  }
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    config.layers[i].moe = is_last_of(i, step);
  }
  return {};
}

}  // namespace

Status read_gguf_rope(GgufKeys& keys, const formats::Checkpoint& checkpoint, ModelConfig& config) {
  RopeParameters& rope = config.rope;
  rope.rope_theta = OCTAVO_TRY(keys.number_or("rope.freq_base", 10000));
  OCTAVO_TRY(check_rotary_dim(keys, config));
  if (config.traits.local_rope) {
    config.local_rope = RopeParameters{};
    config.local_rope->rope_theta =
        OCTAVO_TRY(keys.number_or("rope.freq_base_swa", kGemma3LocalTheta));
  }
  const bool factors = checkpoint.find("rope_freqs.weight") != nullptr;
  // Old files have the factor alone, under another name.
  const char* old_linear = "rope.scale_linear";
  std::string type =
      keys.has("rope.scaling.type") ? OCTAVO_TRY(keys.text("rope.scaling.type")) : "none";
  if (type == "none" && checkpoint.find("rope_factors_long.weight") != nullptr) type = "longrope";
  const char* factor_key = "rope.scaling.factor";
  if (type == "none" && keys.has(old_linear)) {
    type = "linear";
    factor_key = old_linear;
  }
  if (factors && type != "none") {
    return unsupported(
        format("{}: rope.scaling.type {} beside rope_freqs.weight", keys.path(), type));
  }
  if (factors) rope.rope_type = RopeType::kLongrope;
  if (type == "none") return {};
  if (type == "yarn") return read_yarn(keys, rope);
  if (type == "longrope") return read_longrope(keys, checkpoint, config);
  if (type != "linear") {
    return unsupported(format("{}: '{}' is '{}', which octavo does not compute yet", keys.path(),
                              keys.full("rope.scaling.type"), type));
  }
  rope.rope_type = RopeType::kLinear;
  rope.factor = OCTAVO_TRY(keys.number(factor_key));
  return {};
}

Status read_gguf_layers(GgufKeys& keys, ModelConfig& config) {
  config.layers.assign(config.num_hidden_layers, {});
  OCTAVO_TRY(read_windows(keys, config));
  if (config.traits.moe != MoeKind::kNone) OCTAVO_TRY(read_moe(keys, config));
  if (config.traits.moe == MoeKind::kLlama4) OCTAVO_TRY(read_llama4_layers(keys, config));
  return {};
}

}  // namespace octavo::model
