// Rotary embedding. Cosine and sine are computed once per position and used for all heads, in
// double so that angles of 131072 radians and more lose nothing.
#include <cmath>

#include "backends/cpu/for_rows.h"
#include "backends/cpu/row_ops.h"

namespace octavo::backends::cpu {
namespace {

// Angles handled at a time: their cosines and sines fit on the stack.
constexpr int64_t kAngles = 64;

struct Rotation {
  float cos;
  float sin;
};

// sin(r) / r and cos(r) as series in r^2, highest power first; on [-pi/4, pi/4] the rest is below
// 1e-10.
constexpr double kSine[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                            1.0 / 120,        -1.0 / 6,        1.0};
constexpr double kCosine[] = {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                              -1.0 / 720,         1.0 / 24,        -0.5,           1.0};

template <size_t kTerms>
double polynomial(const double (&terms)[kTerms], double x) {
  double sum = 0;
  for (const double term : terms) sum = sum * x + term;
  return sum;
}

// Without the library's errno and large-argument paths this is several times faster than its two
// calls. What is not finite gives NaN.
Rotation rotation(float angle, float factor) {
  constexpr double kPiOver2 = 1.57079632679489661923;
  constexpr double kRest = 6.12323399573676603587e-17;  // pi/2 - kPiOver2
  const double quadrants = std::floor(angle * (1 / kPiOver2) + 0.5);
  const double r = (angle - quadrants * kPiOver2) - quadrants * kRest;
  const double sine = polynomial(kSine, r * r) * r;
  const double cosine = polynomial(kCosine, r * r);
  const double quadrant = quadrants - 4 * std::floor(quadrants * 0.25);
  const bool odd = quadrant == 1 || quadrant == 3;
  const double sin = odd ? cosine : sine;
  const double cos = odd ? sine : cosine;
  return {static_cast<float>(quadrant == 1 || quadrant == 2 ? -cos : cos) * factor,
          static_cast<float>(quadrant >= 2 ? -sin : sin) * factor};
}

void rotate_heads(const ops::RopeArgs& a, int64_t t) {
  const int64_t half = a.rotary_dim / 2;
  const auto position = static_cast<float>(a.positions[t]);
  const float* inv_freq = a.inv_freq + (a.variants == nullptr ? 0 : a.variants[t]) * half;
  float cosines[kAngles];
  float sines[kAngles];
  for (int64_t begin = 0; begin < half; begin += kAngles) {
    const int64_t count = std::min(kAngles, half - begin);
    for (int64_t i = 0; i < count; ++i) {
      const Rotation turn = rotation(position * inv_freq[begin + i], a.attention_factor);
      cosines[i] = turn.cos;
      sines[i] = turn.sin;
    }
    float* const row = a.x.row<float>(t);
    for (int64_t head = 0; head < a.x.cols; head += a.head_dim) {
      float* first = row + head + begin;
      float* second = first + half;
      for (int64_t i = 0; i < count; ++i) {
        const float u = first[i];
        const float v = second[i];
        first[i] = u * cosines[i] - v * sines[i];
        second[i] = v * cosines[i] + u * sines[i];
      }
    }
  }
}

}  // namespace

void rope(ops::ExecContext& ctx, const ops::RopeArgs& a) {
  // A rotation costs as much as about sixteen plain values.
  for_rows(ctx, a.x.rows, a.x.cols + 16 * a.rotary_dim, [&](int64_t t) { rotate_heads(a, t); });
}

}  // namespace octavo::backends::cpu
