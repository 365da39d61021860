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
};

constexpr NamePair kLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

template <size_t N>
std::string_view translate(const NamePair (&table)[N], std::string_view hf) {
  for (const NamePair& pair : table) {
    if (pair.hf == hf) return pair.gguf;
  }
  OCTAVO_CHECK(!"a tensor name without a GGUF counterpart");
  return {};
}

}  // namespace

std::string file_tensor_name(std::string_view format, std::string_view hf_name) {
  if (format != "gguf") return std::string(hf_name);
  constexpr std::string_view kLayers = "model.layers.";
  const size_t suffix = hf_name.rfind('.');  // ".weight" or ".bias"
  const std::string_view stem = hf_name.substr(0, suffix);
  const std::string tail(hf_name.substr(suffix));
  if (!stem.starts_with(kLayers)) return std::string(translate(kTopLevel, stem)) + tail;
  const size_t dot = stem.find('.', kLayers.size());
  const std::string index(stem.substr(kLayers.size(), dot - kLayers.size()));
  return "blk." + index + "." + std::string(translate(kLayer, stem.substr(dot + 1))) + tail;
}

}  // namespace octavo::model
