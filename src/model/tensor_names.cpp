#include "model/tensor_names.h"

#include "base/check.h"

namespace octavo::model {
namespace {

struct NamePair {
  std::string_view hf;
  std::string_view gguf;
};

constexpr NamePair kTopLevel[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"rope_freqs", "rope_freqs"},
    {"rope_factors_short", "rope_factors_short"},
    {"rope_factors_long", "rope_factors_long"},
};

constexpr NamePair kLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
};

template <size_t N>
std::string_view translate(const NamePair (&table)[N], std::string_view hf) {
  for (const NamePair& pair : table) {
    if (pair.hf == hf) return pair.gguf;
  }
  OCTAVO_CHECK(!"a tensor name without a GGUF counterpart");
  return {};
}

std::string_view translate_layer(std::string_view hf, NormPlacement norms) {
  if (hf == "post_attention_layernorm") {
    return norms == NormPlacement::kBefore ? "ffn_norm" : "post_attention_norm";
  }
  return translate(kLayer, hf);
}

}  // namespace

std::string gguf_tensor_name(std::string_view hf_name, NormPlacement norms) {
  constexpr std::string_view kLayers = "model.layers.";
  const size_t suffix = hf_name.rfind('.');  // ".weight" or ".bias"
  const std::string_view stem = hf_name.substr(0, suffix);
  const std::string tail(hf_name.substr(suffix));
  if (!stem.starts_with(kLayers)) return std::string(translate(kTopLevel, stem)) + tail;
  const size_t dot = stem.find('.', kLayers.size());
  const std::string index(stem.substr(kLayers.size(), dot - kLayers.size()));
  return "blk." + index + "." + std::string(translate_layer(stem.substr(dot + 1), norms)) + tail;
}

}  // namespace octavo::model
