#include "model/architectures.h"

namespace octavo::model {
namespace {

using ops::Activation;
using ops::QkNorm;

constexpr Traits kLlama = {.gguf_adjacent_pairs = true};

constexpr Traits kMistral = {.windows = WindowRule::kAll, .gguf_adjacent_pairs = true};

constexpr Traits kMixtral = {.windows = WindowRule::kAll,
                             .moe = MoeKind::kMixtral,
                             .gguf_adjacent_pairs = true,
                             .rope_theta = 1e6};

constexpr Traits kQwen2 = {.windows = WindowRule::kFromLayer, .qkv_bias = true};

constexpr Traits kQwen3 = {.qk_norm = QkNorm::kPerHead, .windows = WindowRule::kFromLayer};

constexpr Traits kQwen3Moe = {
    .qk_norm = QkNorm::kPerHead, .windows = WindowRule::kFromLayer, .moe = MoeKind::kQwen3};

constexpr Traits kPhi3 = {
    .windows = WindowRule::kAll, .fused_projections = true, .partial_rotary = true};

constexpr Traits kOlmo2 = {.norms = NormPlacement::kAfter, .qk_norm = QkNorm::kAllHeads};

constexpr Traits kGemma2 = {.norms = NormPlacement::kAround,
                            .activation = Activation::kGeluTanh,
                            .windows = WindowRule::kAlternating,
                            .local_period = 2,
                            .capped_scores = true,
                            .norms_plus_one = true,
                            .scaled_embedding = true,
                            .tied_by_default = true};

constexpr Traits kGemma3 = {.norms = NormPlacement::kAround,
                            .qk_norm = QkNorm::kPerHead,
                            .activation = Activation::kGeluTanh,
                            .windows = WindowRule::kAlternating,
                            .local_period = 6,
                            .local_rope = true,
                            .norms_plus_one = true,
                            .scaled_embedding = true,
                            .tied_by_default = true,
                            .rope_theta = 1e6};

constexpr Traits kLlama4 = {.moe = MoeKind::kLlama4,
                            .adjacent_pairs = true,
                            .gguf_adjacent_pairs = true,
                            .rope_theta = 5e5};

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "Llama 1 to 3.3, SmolLM 2, TinyLlama, …", kLlama},
    {"llama", "MistralForCausalLM", "Mistral 7B, Nemo, Small", kMistral},
    {"llama", "MixtralForCausalLM", "Mixtral 8x7B, 8x22B", kMixtral},
    {"qwen2", "Qwen2ForCausalLM", "Qwen 2, Qwen 2.5", kQwen2},
    {"qwen3", "Qwen3ForCausalLM", "Qwen 3, dense", kQwen3},
    {"qwen3moe", "Qwen3MoeForCausalLM", "Qwen 3, mixture of experts", kQwen3Moe},
    {"phi3", "Phi3ForCausalLM", "Phi 3, Phi 3.5 mini, Phi 4", kPhi3},
    {"olmo2", "Olmo2ForCausalLM", "OLMo 2", kOlmo2},
    {"gemma2", "Gemma2ForCausalLM", "Gemma 2", kGemma2},
    {"gemma3", "Gemma3ForCausalLM", "Gemma 3, text", kGemma3},
    {"llama4", "Llama4ForCausalLM", "Llama 4, text", kLlama4},
    {"",
     "Llama4ForConditionalGeneration",
     "Llama 4 Scout and Maverick: their text part",
     kLlama4,
     "language_model.",
     {"vision_model.", "multi_modal_projector."}},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_gguf_architecture(std::string_view name, bool has_experts) {
  for (const Architecture& row : kArchitectures) {
    if (row.gguf_name == name && (row.traits.moe != MoeKind::kNone) == has_experts) return &row;
  }
  return nullptr;
}

const Architecture* find_hf_architecture(std::string_view name) {
  for (const Architecture& row : kArchitectures) {
    if (row.hf_name == name) return &row;
  }
  return nullptr;
}

}  // namespace octavo::model
