// Traits: how an architecture's graph differs from Llama's in what its config does not say. One row
// of them for each architecture (architectures.cpp); the defaults are Llama's.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace octavo::model {

enum class NormPlacement : uint8_t {
  kBefore,  // h += block(norm(h))
  kAfter,   // h += norm(block(h))
  kAround,  // h += norm(block(norm(h)))
};

// Which layers have the config's sliding_window where `layer_types` does not say.
enum class WindowRule : uint8_t {
  kNone,        // the architecture has none
  kAll,         // every layer
  kFromLayer,   // from max_window_layers on, if use_sliding_window
  kAlternating  // all but every local_period-th
};

// Whose names and routing the experts have.
enum class MoeKind : uint8_t { kNone, kMixtral, kQwen3, kLlama4 };

struct Traits {
  NormPlacement norms = NormPlacement::kBefore;
  ops::QkNorm qk_norm = ops::QkNorm::kNone;
  bool qk_norm_weights = true;  // false: only scaled to unit size, and only where there is rotation
  ops::Activation activation = ops::Activation::kSilu;
  WindowRule windows = WindowRule::kNone;
  int64_t local_period = 0;
  bool local_rope = false;     // layers with a window rotate by a base of their own
  bool capped_scores = false;  // attn_logit_softcapping has a meaning
  bool qkv_bias = false;       // q, k and v must have biases (otherwise they may)
  MoeKind moe = MoeKind::kNone;
  bool adjacent_pairs = false;       // q and k rows rotate in pairs (2i, 2i + 1) of a head
  bool gguf_adjacent_pairs = false;  // the same, in GGUF files
  bool fused_projections = false;    // qkv_proj and gate_up_proj in one matrix each
  bool partial_rotary = false;       // partial_rotary_factor has a meaning
  bool norms_plus_one = false;       // a norm multiplies by 1 + weight (in GGUF files: by weight)
  bool scaled_embedding = false;     // by sqrt(hidden_size)
  bool tied_by_default = false;      // tie_word_embeddings where the config is silent
  double rope_theta = 10000;         // where the config is silent
};

}  // namespace octavo::model
