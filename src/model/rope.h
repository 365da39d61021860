// Rotary embedding parameters and the frequencies that follow from them. (Su et al., 2021; the
// variants as Hugging Face transformers computes them in modeling_rope_utils)
#pragma once

#include <cstdint>
#include <vector>

namespace octavo::model {

enum class RopeType {
  kDefault,  // inv_freq[i] = rope_theta^(-2i / rotary_dim)
  kLinear,   // the same / factor
  kDynamic,  // rope_theta grows with the sequence beyond the original length (NTK-aware)
  kLlama3,   // low frequencies / factor, high ones kept, a blend between
  kYarn,     // a ramp between kept and divided frequencies; cos and sin scaled (Peng et al., 2023)
  kFactors,  // each frequency / its own factor, from the tensor rope_freqs.weight (GGUF)
};

// Spelled as in config.json's rope_scaling and rope_parameters.
struct RopeParameters {
  RopeType rope_type = RopeType::kDefault;
  double rope_theta = 10000;
  double factor = 1;
  double original_max_position_embeddings = 0;  // of dynamic, llama3 and yarn
  double low_freq_factor = 1;                   // llama3
  double high_freq_factor = 4;                  // llama3
  double beta_fast = 32;                        // yarn
  double beta_slow = 1;                         // yarn
  bool truncate = true;                         // yarn: whole dimensions as the ramp's ends
  double attention_factor = 1;                  // yarn: of cos and sin

  // Whether the frequencies depend on how long a sequence may become.
  bool depends_on_length() const { return rope_type == RopeType::kDynamic; }
};

// The rotary_dim / 2 frequencies for a sequence of up to `max_tokens` tokens (which counts where
// depends_on_length()). kFactors yields the undivided ones.
std::vector<float> rope_inv_freq(const RopeParameters& rope, int64_t rotary_dim,
                                 int64_t max_tokens);

// yarn's attention_factor where the config gives none: 0.1 ln(factor) + 1, or the quotient of that
// with mscale and with mscale_all_dim where both are given (0: not given).
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);

}  // namespace octavo::model
