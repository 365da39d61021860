// Rotary embedding parameters and the frequencies that follow from them. (Su et al., 2021; the
// variants as Hugging Face transformers computes them in modeling_rope_utils)
#pragma once

#include <cstdint>
#include <vector>

namespace octavo::model {

enum class RopeType {
  kDefault,   // inv_freq[i] = rope_theta^(-2i / rotary_dim)
  kLinear,    // the same / factor
  kDynamic,   // rope_theta grows with the sequence beyond the original length (NTK-aware)
  kLlama3,    // low frequencies / factor, high ones kept, a blend between
  kYarn,      // a ramp between kept and divided frequencies; cos and sin scaled (Peng et al., 2023)
  kLongrope,  // each / its own factor, one of two lists (Ding et al., 2024); cos and sin scaled
};

// Spelled as in config.json's rope_scaling and rope_parameters.
struct RopeParameters {
  RopeType rope_type = RopeType::kDefault;
  double rope_theta = 10000;
  double factor = 1;
  double original_max_position_embeddings = 0;  // of all but default and linear
  double low_freq_factor = 1;                   // llama3
  double high_freq_factor = 4;                  // llama3
  double beta_fast = 32;                        // yarn
  double beta_slow = 1;                         // yarn
  bool truncate = true;                         // yarn: whole dimensions as the ramp's ends
  double attention_factor = 1;                  // yarn, longrope: of cos and sin
  std::vector<double> short_factor;  // longrope, [rotary_dim / 2]: up to the original length
  std::vector<double> long_factor;   // beyond it; the same list in a GGUF file's rope_freqs.weight

  // Whether the frequencies depend on how long a sequence may become.
  bool depends_on_length() const {
    return rope_type == RopeType::kDynamic ||
           (rope_type == RopeType::kLongrope && short_factor != long_factor);
  }
};

// Which frequencies a sequence of up to `max_tokens` tokens has. Sequences with equal variants
// rotate alike, so that only they may share keys; 0 is the variant of short sequences, and the only
// one where the length has no influence. Chosen once in a sequence's life: keys that were rotated
// one way cannot be met by queries that are rotated another.
int64_t rope_variant(const RopeParameters& rope, int64_t max_tokens);

// The rotary_dim / 2 frequencies of a variant.
std::vector<float> rope_inv_freq(const RopeParameters& rope, int64_t rotary_dim, int64_t variant);

// longrope's attention_factor where the config gives none, from how far the context was stretched.
double longrope_attention_factor(double factor, double original_max_position_embeddings);

// yarn's attention_factor where the config gives none: 0.1 ln(factor) + 1, or the quotient of that
// with mscale and with mscale_all_dim where both are given (0: not given).
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);

}  // namespace octavo::model
