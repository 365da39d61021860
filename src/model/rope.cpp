#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octavo::model {
namespace {

constexpr double kPi = std::numbers::pi;

double llama3(double freq, const RopeParameters& rope) {
  const double wavelength = 2 * kPi / freq;
  const double original = rope.original_max_position_embeddings;
  if (wavelength < original / rope.high_freq_factor) return freq;
  if (wavelength > original / rope.low_freq_factor) return freq / rope.factor;
  // Only reached with high_freq_factor > low_freq_factor: otherwise one of the two holds.
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * freq / rope.factor + smooth * freq;
}

// The (fractional) dimension whose frequency turns `rotations` times within the original length.
double yarn_dimension(double rotations, const RopeParameters& rope, int64_t rotary_dim) {
  return static_cast<double>(rotary_dim) *
         std::log(rope.original_max_position_embeddings / (rotations * 2 * kPi)) /
         (2 * std::log(rope.rope_theta));
}

// 0: keep the frequency, 1: divide it by the factor.
double yarn_ramp(int64_t i, const RopeParameters& rope, int64_t rotary_dim) {
  double low = yarn_dimension(rope.beta_fast, rope, rotary_dim);
  double high = yarn_dimension(rope.beta_slow, rope, rotary_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;  // as transformers: no division by zero
  return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

double dynamic_theta(const RopeParameters& rope, int64_t rotary_dim, int64_t variant) {
  const double original = rope.original_max_position_embeddings;
  const double length = std::max(static_cast<double>(variant), original);
  const auto dim = static_cast<double>(rotary_dim);
  return rope.rope_theta *
         std::pow(rope.factor * length / original - (rope.factor - 1), dim / (dim - 2));
}

}  // namespace

int64_t rope_variant(const RopeParameters& rope, int64_t max_tokens) {
  if (!rope.depends_on_length()) return 0;
  if (static_cast<double>(max_tokens) <= rope.original_max_position_embeddings) return 0;
  return rope.rope_type == RopeType::kDynamic ? max_tokens : 1;
}

std::vector<float> rope_inv_freq(const RopeParameters& rope, int64_t rotary_dim, int64_t variant) {
  const double theta = rope.rope_type == RopeType::kDynamic
                           ? dynamic_theta(rope, rotary_dim, variant)
                           : rope.rope_theta;
  std::vector<float> inv_freq(rotary_dim / 2);
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    double freq = std::pow(theta, -static_cast<double>(2 * i) / static_cast<double>(rotary_dim));
    switch (rope.rope_type) {
      case RopeType::kDefault:
      case RopeType::kDynamic:
        break;
      case RopeType::kLongrope:
        freq /= variant == 0 ? rope.short_factor[i] : rope.long_factor[i];
        break;
      case RopeType::kLinear:
        freq /= rope.factor;
        break;
      case RopeType::kLlama3:
        freq = llama3(freq, rope);
        break;
      case RopeType::kYarn: {
        const double ramp = yarn_ramp(i, rope, rotary_dim);
        freq = freq / rope.factor * ramp + freq * (1 - ramp);
        break;
      }
    }
    inv_freq[i] = static_cast<float>(freq);
  }
  return inv_freq;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto scale = [factor](double m) {
    return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
  };
  return mscale > 0 && mscale_all_dim > 0 ? scale(mscale) / scale(mscale_all_dim) : scale(1);
}

double longrope_attention_factor(double factor, double original_max_position_embeddings) {
  if (factor <= 1 || original_max_position_embeddings <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(original_max_position_embeddings));
}

}  // namespace octavo::model
