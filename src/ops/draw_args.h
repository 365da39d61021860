// How a token is drawn from a row of logits: the rule that engine/sampler.h, `ref` and GPUs follow
// to the last bit, so that a seed gives the same token whoever draws.
//
// A logit x has the scaled value (x - max) * scale, in float32, and the weight exp of that, none
// where it is below `least`. Sums of weights: blocks of 256 logits in float32, halves added to each
// other until one value is left; groups of 16 blocks, then the groups, one after another in double.
// A share of a sum belongs to the group, in it the block, in it the token up to which the values,
// added to those before, reach beyond it.
//
// top_k leaves candidates, which a draw goes through from the likeliest on. top_p alone finds a
// bound of scaled values, -1, -2, -4, … then 8 times halfway, so that what lies above does not
// reach the share and what lies next to it does: a draw goes through what lies above by blocks,
// then through the candidates that lie next to it.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/mat.h"

namespace octavo::ops {

inline constexpr int64_t kDrawBlock = 256;  // logits
inline constexpr int64_t kDrawGroup = 16;   // blocks

// Scaled values below it have no weight: their exponentials are no normal numbers any more.
inline constexpr float kLeastScaled = -87.0f;

enum class DrawKind : int32_t {
  kNone,    // no token
  kGreedy,  // the first of the largest logits
  kRandom,
};

struct RowDraw {
  DrawKind kind = DrawKind::kNone;
  int32_t top_k = 0;           // the likeliest, of equal ones those with lower ids; 0: all
  float scale = 1;             // 1 / temperature
  float least = kLeastScaled;  // no less than that
  float top_p = 1;             // the fewest of the likeliest whose weights reach this share
  double share = 0;            // of all that is left, in [0, 1): the token drawn
};

// token_ids[i] = the token drawn from row i, or -1: by its kind; where the row has a NaN or no
// finite maximum; and where a kernel finds too many candidates. Then the row itself has to be
// looked at.
struct DrawTokensArgs {
  int32_t* token_ids = nullptr;    // [n]
  Mat logits;                      // [n, vocab_size], kF32
  const RowDraw* draws = nullptr;  // [n]
};

// Of draw_weight, here and on GPUs.
inline constexpr float kExpLog2E = 1.44269504f;
inline constexpr float kExpLn2High = 0.693359375f;  // few bits: n times it is exact
inline constexpr float kExpLn2Low = -2.12194440e-4f;
inline constexpr float kExpRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves whole numbers

// exp(x) for x in [-87, 0], off by 2 units in the last place at most; for others, anything. It is
// 2^n times the exponential of what is left, which lies in [-ln 2 / 2, ln 2 / 2]: without branches
// and calls, for vectors.
__attribute__((always_inline)) inline float draw_weight(float x) {
  const float shifted = x * kExpLog2E + kExpRound;
  const float n = shifted - kExpRound;
  const float r = x - n * kExpLn2High - n * kExpLn2Low;
  float e = 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kExpRound);
  return e * std::bit_cast<float>((exponent + 127) << 23);
}

// Of [begin, end) the first up to which the values reach beyond `target`, or the last that is not
// 0; `before`, what precedes them all, becomes what precedes that one.
template <typename Value>
constexpr int64_t walk_to(double target, int64_t begin, int64_t end, double& before,
                          const Value& value) {
  int64_t chosen = begin;
  double own = value(begin);
  for (int64_t i = begin + 1; i < end && before + own <= target; ++i) {
    const double next = value(i);
    if (next == 0) continue;
    before += own;
    own = next;
    chosen = i;
  }
  return chosen;
}

}  // namespace octavo::ops
