// What a config.json says of single layers: who sees what, who rotates, where the experts are.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "model/hf_reader.h"

namespace octavo::model {
namespace {

// 0 where there is none, or where it is switched off.
Result<int64_t> read_window(const HfReader& reader, const Traits& traits) {
  if (traits.windows == WindowRule::kNone) return 0;
  if (traits.windows == WindowRule::kAlternating) return reader.count("sliding_window", INT32_MAX);
  const bool on = traits.windows != WindowRule::kFromLayer ||
                  OCTAVO_TRY(reader.flag_or("use_sliding_window", false));
  if (!reader.has("sliding_window") || !on) return 0;
  return reader.count("sliding_window", INT32_MAX);
}

Status read_layer_types(const HfReader& reader, int64_t window, int64_t chunk,
                        ModelConfig& config) {
  const auto types = OCTAVO_TRY(reader.texts("layer_types", config.num_hidden_layers));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string& type = types[i];
    if (type == "sliding_attention" && window > 0) {
      config.set_window(i, window);
    } else if (type == "chunked_attention" && chunk > 0) {
      config.layers[i].attention_chunk_size = chunk;
    } else if (type != "full_attention") {
      return unsupported(
          format("{}: 'layer_types' makes layer {} '{}', for which this config has no size",
                 reader.source(), i, type));
    }
  }
  return {};
}

Status apply_window_rule(const HfReader& reader, int64_t window, ModelConfig& config) {
  int64_t begin = 0;
  int64_t period = 0;
  if (config.traits.windows == WindowRule::kFromLayer) {
    begin = OCTAVO_TRY(reader.integer_or("max_window_layers", config.num_hidden_layers));
  } else if (config.traits.windows == WindowRule::kAlternating) {
    const char* key =
        reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    period =
        reader.has(key) ? OCTAVO_TRY(reader.count(key, kMaxLayers)) : config.traits.local_period;
  }
  for (int64_t i = std::max<int64_t>(begin, 0); i < config.num_hidden_layers; ++i) {
    if (period > 0 && (i + 1) % period == 0) continue;
    config.set_window(i, window);
  }
  return {};
}

// Llama 4: which layers rotate (no_rope_layers has a 1 for those that do), and q/k norms and
// temperature that follow from it.
Status read_llama4_rotation(const HfReader& reader, ModelConfig& config) {
  const int64_t num_layers = config.num_hidden_layers;
  std::vector<int64_t> rotates;
  if (reader.has("no_rope_layers")) {
    rotates = OCTAVO_TRY(reader.integers("no_rope_layers", num_layers));
  }
  if (rotates.empty()) {
    const int64_t interval = reader.has("no_rope_layer_interval")
                                 ? OCTAVO_TRY(reader.count("no_rope_layer_interval", kMaxLayers))
                                 : 4;
    for (int64_t i = 0; i < num_layers; ++i) rotates.push_back((i + 1) % interval != 0);
  }
  if (static_cast<int64_t>(rotates.size()) != num_layers) {
    return data_loss(format("{}: 'no_rope_layers' has {} elements, which must be {}",
                            reader.source(), rotates.size(), num_layers));
  }
  for (int64_t i = 0; i < num_layers; ++i) {
    config.layers[i].rope = rotates[i] != 0 ? LayerRope::kGlobal : LayerRope::kNone;
  }
  if (OCTAVO_TRY(reader.flag_or("use_qk_norm", true))) {
    config.traits.qk_norm = ops::QkNorm::kPerHead;
    config.traits.qk_norm_weights = false;
  }
  // Old files say 4 where new ones say true.
  const Json* tuning = reader.find("attn_temperature_tuning");
  const bool tuned =
      tuning == nullptr || (tuning->is_bool() ? tuning->get_bool() : *tuning != Json(0));
  const double attn_scale = OCTAVO_TRY(reader.positive_or("attn_scale", 0.1));
  const double floor_scale = OCTAVO_TRY(reader.positive_or("floor_scale", 8192));
  if (tuned) {
    config.attn_scale = static_cast<float>(attn_scale);
    config.floor_scale = static_cast<float>(floor_scale);
  }
  return {};
}

Result<ops::Routing> read_routing(const HfReader& reader, MoeKind kind) {
  // transformers 5 writes the first name, whatever the architecture's own.
  const char* experts = reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
  ops::Routing routing;
  routing.num_experts = OCTAVO_TRY(reader.count(experts, kMaxExperts));
  routing.top_k = OCTAVO_TRY(reader.count("num_experts_per_tok", routing.num_experts));
  if (kind == MoeKind::kLlama4) {
    routing.score = ops::RouterScore::kSigmoid;
    routing.weighs_input = true;
  } else if (kind == MoeKind::kQwen3) {
    const bool normed = OCTAVO_TRY(reader.flag_or("norm_topk_prob", false));
    routing.score = normed ? ops::RouterScore::kSoftmaxOfTopK : ops::RouterScore::kSoftmax;
  }
  return routing;
}

Status mark_moe_layers(const HfReader& reader, ModelConfig& config) {
  const int64_t num_layers = config.num_hidden_layers;
  const bool llama4 = config.traits.moe == MoeKind::kLlama4;
  if (llama4 && reader.has("moe_layers")) {
    for (const int64_t i : OCTAVO_TRY(reader.integers("moe_layers", num_layers))) {
      if (i < 0 || i >= num_layers) {
        return data_loss(
            format("{}: 'moe_layers' names layer {} of {}", reader.source(), i, num_layers));
      }
      config.layers[i].moe = true;
    }
    return {};
  }
  int64_t step = 1;
  const char* key = llama4 ? "interleave_moe_layer_step" : "decoder_sparse_step";
  if (config.traits.moe != MoeKind::kMixtral && reader.has(key)) {
    step = OCTAVO_TRY(reader.count(key, kMaxLayers));
  }
  for (int64_t i = 0; i < num_layers; ++i) config.layers[i].moe = (i + 1) % step == 0;
  if (config.traits.moe == MoeKind::kQwen3 && reader.has("mlp_only_layers")) {
    for (const int64_t i : OCTAVO_TRY(reader.integers("mlp_only_layers", num_layers))) {
      if (i >= 0 && i < num_layers) config.layers[i].moe = false;
    }
  }
  return {};
}

Status read_moe(const HfReader& reader, ModelConfig& config) {
  config.moe.routing = OCTAVO_TRY(read_routing(reader, config.traits.moe));
  const bool qwen = config.traits.moe == MoeKind::kQwen3;
  config.moe.intermediate_size =
      OCTAVO_TRY(reader.count(qwen ? "moe_intermediate_size" : "intermediate_size", kMaxExtent));
  if (config.traits.moe == MoeKind::kLlama4) {
    config.moe.shared_intermediate_size = config.moe.intermediate_size;
  }
  return mark_moe_layers(reader, config);
}

}  // namespace

Status read_hf_layers(const HfReader& reader, ModelConfig& config) {
  config.layers.assign(config.num_hidden_layers, {});
  const bool llama4 = config.traits.moe == MoeKind::kLlama4;
  const int64_t window = OCTAVO_TRY(read_window(reader, config.traits));
  int64_t chunk = 0;
  if (llama4) {
    OCTAVO_TRY(read_llama4_rotation(reader, config));
    if (reader.has("attention_chunk_size")) {
      chunk = OCTAVO_TRY(reader.count("attention_chunk_size", INT32_MAX));
    }
  }
  if (reader.has("layer_types")) {
    OCTAVO_TRY(read_layer_types(reader, window, chunk, config));
  } else if (window > 0) {
    OCTAVO_TRY(apply_window_rule(reader, window, config));
  } else if (chunk > 0) {
    for (LayerConfig& layer : config.layers) {
      if (layer.rope != LayerRope::kNone) layer.attention_chunk_size = chunk;
    }
  }
  if (config.traits.moe == MoeKind::kNone) return {};
  return read_moe(reader, config);
}

}  // namespace octavo::model
