// Scales that each token's key and value have, in the arithmetic of the decode kernel.
#pragma once

#include "backends/cuda/tile/decode_math.cuh"

namespace octavo::backends::cuda {

// Raw scores times the scale that each token's key has, `scales` of the tile.
template <class Layout, int kHalves>
__device__ inline void scale_keys(Scores<Layout, kHalves>& s, const float* scales) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int group = 0; group < Layout::kTokenGroups; ++group) {
    const float scale = scales[Layout::token(group, g)];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      s[group / 2][half][group % 2 * 2] *= scale;
      s[group / 2][half][group % 2 * 2 + 1] *= scale;
    }
  }
}

// Probabilities times the scale that each token's value has. The products are brought into the
// range of half precision by a power of two: that of the largest scale that the warp has met so
// far, to which `out` is brought. Tokens that no row sees have no scale, only memory.
template <class Layout, int kHalves>
__device__ inline void scale_probabilities(Scores<Layout, kHalves>& s,
                                           DecodeRows<Layout, kHalves>& rows, const float* scales) {
  constexpr int kLargestUnit = 253;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  float largest = 0.0f;
#pragma unroll
  for (int group = 0; group < Layout::kTokenGroups; ++group) {
    float highest = 0.0f;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      highest = fmaxf(
          highest, fmaxf(s[group / 2][half][group % 2 * 2], s[group / 2][half][group % 2 * 2 + 1]));
    }
    if (highest > 0.0f) largest = fmaxf(largest, scales[Layout::token(group, g)]);
  }
  const unsigned bits = __reduce_max_sync(kWarpLanes, __float_as_uint(largest));
  const int unit = min(static_cast<int>(bits >> 23), kLargestUnit);
  if (unit > rows.unit) {
    const float factor = __int_as_float(max(0, 127 + rows.unit - unit) << 23);
    rows.unit = unit;
#pragma unroll
    for (auto& half : rows.out) {
#pragma unroll
      for (auto& groups : half) {
#pragma unroll
        for (float& value : groups) value *= factor;
      }
    }
  }
  const float to_unit = __int_as_float((254 - rows.unit) << 23);
#pragma unroll
  for (int group = 0; group < Layout::kTokenGroups; ++group) {
    const float scale = scales[Layout::token(group, g)] * to_unit;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& p = s[group / 2][half][group % 2 * 2 + i];
        p = p > 0.0f ? p * scale : 0.0f;
      }
    }
  }
}

}  // namespace octavo::backends::cuda
