#include <cmath>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void rope(ops::ExecContext&, const ops::RopeArgs& a) {
  const int64_t half = a.rotary_dim / 2;
  for (int64_t t = 0; t < a.x.rows; ++t) {
    const float* inv_freq = a.inv_freq + (a.variants == nullptr ? 0 : a.variants[t]) * half;
    for (int64_t i = 0; i < half; ++i) {
      // The angle is rounded to float32 as the models' authors do; only then it is exact.
      const double angle = static_cast<float>(a.positions[t]) * inv_freq[i];
      const double c = std::cos(angle) * a.attention_factor;
      const double s = std::sin(angle) * a.attention_factor;
      for (float* head = a.x.row<float>(t); head < a.x.row<float>(t) + a.x.cols;
           head += a.head_dim) {
        const double first = head[i];
        const double second = head[i + half];
        head[i] = static_cast<float>(first * c - second * s);
        head[i + half] = static_cast<float>(second * c + first * s);
      }
    }
  }
}

}  // namespace octavo::backends::ref
