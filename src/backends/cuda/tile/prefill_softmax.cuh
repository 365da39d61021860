// The parts of the prefill kernels that work on a thread's registers alone: masking, the running
// softmax and the way from accumulators to stored rows. A thread owns two rows 8 apart of a tile's,
// in accumulators laid out as mma.sync and wgmma leave them; the four threads of a quad share them.
#pragma once

#include "backends/cuda/ptx/exp2.cuh"
#include "backends/cuda/tile/prefill_params.h"

namespace octavo::backends::cuda {

// max in units of raw scores, and at most kMaxGrowthLog2 below the true one in units of log2; sum
// the thread's own share.
struct SoftmaxRows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};
};

__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 2));
}

__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFF, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFF, value, 2);
}

// The largest of the thread's scores in its r-th row; in several chains, since one waits for
// itself.
template <int kCount>
__device__ __forceinline__ float thread_max(const float (&s)[kCount], int r) {
  float chains[4] = {s[2 * r], s[2 * r + 1], s[2 * r + 4], s[2 * r + 5]};
#pragma unroll
  for (int i = 8; i < kCount; i += 4) {
    chains[i / 4 % 2 * 2] = fmaxf(chains[i / 4 % 2 * 2], s[i + 2 * r]);
    chains[i / 4 % 2 * 2 + 1] = fmaxf(chains[i / 4 % 2 * 2 + 1], s[i + 2 * r + 1]);
  }
  return fmaxf(fmaxf(chains[0], chains[1]), fmaxf(chains[2], chains[3]));
}

// Keys low .. high - 1 of a block that a thread's two rows see, counted from its first column.
struct VisibleKeys {
  int low[2], high[2];
};

template <int kCount>
__device__ __forceinline__ void softcap_scores(float (&s)[kCount], const ScoreScale& scale) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) s[i] = tanh_approx(s[i] * scale.softcap);
}

// Scores that a row does not see become minus infinity.
template <int kCount>
__device__ __forceinline__ void mask_scores(float (&s)[kCount], const VisibleKeys& keys) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = i / 2 % 2;
    const int column = i / 4 * 8 + i % 2;
    if (column < keys.low[r] || column >= keys.high[r]) s[i] = -INFINITY;
  }
}

// Whether no row of the warp needs its maximum raised for a block's scores, of which `largest` are
// the thread's.
__device__ __forceinline__ bool keeps_maxima(const SoftmaxRows& rows, const float (&largest)[2],
                                             const ScoreScale& scale) {
  return !__any_sync(0xFFFFFFFF, !(largest[0] - rows.max[0] <= scale.max_growth &&
                                   largest[1] - rows.max[1] <= scale.max_growth));
}

// Raises the maxima that are exceeded by more than max_growth; all before must be multiplied by
// `correction`. A row that has seen nothing keeps a maximum of -infinity.
//
// A maximum is otherwise left as it is: weights are then up to 2^8 and nothing needs rescaling. The
// row alone decides, so that no other row shows in its result; the warp only skips the work where
// all its rows decide alike.
__device__ __forceinline__ void raise_maxima(SoftmaxRows& rows, float (&correction)[2],
                                             const float (&largest)[2], const ScoreScale& scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float before = rows.max[r];
    const float now = fmaxf(before, quad_max(largest[r]));
    correction[r] = 1.0f;
    if (now - before <= scale.max_growth) continue;
    rows.max[r] = now;
    correction[r] = now == -INFINITY ? 1.0f : exp2_approx((before - now) * scale.log2);
  }
}

// What is taken from scaled scores: the maxima. kMasked: a row may have seen nothing.
template <bool kMasked>
__device__ __forceinline__ float2 weight_bases(const SoftmaxRows& rows, const ScoreScale& scale) {
  const auto base = [&](int r) {
    return kMasked && rows.max[r] == -INFINITY ? 0.0f : rows.max[r] * scale.log2;
  };
  return {base(0), base(1)};
}

// Scores of a block become weights in place, that of a masked score exactly zero. True if all
// before must be multiplied by `correction`.
template <bool kMasked, int kCount>
__device__ __forceinline__ bool softmax_block(float (&s)[kCount], SoftmaxRows& rows,
                                              float (&correction)[2], const VisibleKeys& keys,
                                              const ScoreScale& scale) {
  if constexpr (kMasked) mask_scores(s, keys);
  const float largest[2] = {thread_max(s, 0), thread_max(s, 1)};
  const bool grew = !keeps_maxima(rows, largest, scale);
  correction[0] = correction[1] = 1.0f;
  if (grew) raise_maxima(rows, correction, largest, scale);
  float sum[2] = {0.0f, 0.0f};
  const float2 bases = weight_bases<kMasked>(rows, scale);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = i / 2 % 2;
    s[i] = exp2_approx(fmaf(s[i], scale.log2, r == 0 ? -bases.x : -bases.y));
    sum[r] += s[i];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] = fmaf(rows.sum[r], correction[r], sum[r]);
  return grew;
}

template <int kCount>
__device__ __forceinline__ void rescale(float (&o)[kCount], const float (&correction)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= correction[i / 2 % 2];
}

template <bool kHalf>
__device__ __forceinline__ uint32_t pack_weight_pair(float low, float high) {
  return kHalf ? pack_f16(low, high) : pack_bf16(low, high);
}

// Accumulators of scores become the register operand of the next product (tile/swizzle.h).
template <bool kHalf, int kPairs>
__device__ __forceinline__ void pack_weights(uint32_t (&p)[kPairs], const float (&s)[2 * kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) p[i] = pack_weight_pair<kHalf>(s[2 * i], s[2 * i + 1]);
}

// The weights of scores, packed, what they add to the thread's sums, and the largest of the scores,
// which stay as they are.
template <bool kHalf, int kPairs>
__device__ __forceinline__ void weigh(uint32_t (&p)[kPairs], float (&sum)[2], float (&largest)[2],
                                      const float (&s)[2 * kPairs], float2 bases,
                                      const ScoreScale& scale) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int r = i % 2;
    const float base = r == 0 ? bases.x : bases.y;
    const float low = exp2_approx(fmaf(s[2 * i], scale.log2, -base));
    const float high = exp2_approx(fmaf(s[2 * i + 1], scale.log2, -base));
    sum[r] = i < 2 ? low : sum[r] + low;
    sum[r] += high;
    largest[r] = i < 2 ? s[2 * i] : fmaxf(largest[r], s[2 * i]);
    largest[r] = fmaxf(largest[r], s[2 * i + 1]);
    p[i] = pack_weight_pair<kHalf>(low, high);
  }
}

struct RowResult {
  float factor;  // of the row's sums of weighted values
  float lse;
};

__device__ __forceinline__ RowResult finish_row(float max, float sum, float scale_log2,
                                                float sink) {
  constexpr float kLn2 = 0.69314718055994531f, kLog2e = 1.4426950408889634f;
  sum = quad_sum(sum);
  if (max == -INFINITY) return {0.0f, -INFINITY};
  const float with_sink = sum + exp2_approx(fmaf(sink, kLog2e, -max * scale_log2));
  return {1.0f / with_sink, fmaf(max * scale_log2, kLn2, logf(sum))};
}

// Thread t of a quad holds pair t of the columns of 8 each; after it, all four pairs of column
// group t: 16 bytes in a row.
__device__ __forceinline__ void quad_transpose(uint32_t (&x)[4], uint32_t quad) {
  const auto exchange = [&](uint32_t& a, uint32_t& b, uint32_t bit) {
    const bool upper = (quad & bit) != 0;
    const uint32_t got = __shfl_xor_sync(0xFFFFFFFF, upper ? a : b, bit);
    a = upper ? got : a;
    b = upper ? b : got;
  };
  exchange(x[0], x[1], 1);
  exchange(x[2], x[3], 1);
  exchange(x[0], x[2], 2);
  exchange(x[1], x[3], 2);
}

// Where a tile's results go.
struct OutputTile {
  int q_row, num_tokens, first_head;
};

// Writes the thread's r-th row (r = 0 or 1 of its accumulators), which is row `row` of the tile.
template <int kHeadDim>
__device__ __forceinline__ void store_row(const PrefillParams& params, const OutputTile& tile,
                                          int row, int r, const float (&o)[kHeadDim / 2],
                                          const SoftmaxRows& rows, float scale_log2,
                                          float value_scale) {
  const uint32_t quad = threadIdx.x % 4;
  const int head = tile.first_head + (row & ((1 << params.pack_log2) - 1));
  const int token = row >> params.pack_log2;
  const bool valid = token < tile.num_tokens;
  const float sink = params.sinks != nullptr ? params.sinks[head] : -INFINITY;
  const RowResult result = finish_row(rows.max[r], rows.sum[r], scale_log2, sink);
  const float factor = result.factor * value_scale;
  const int64_t out_row = static_cast<int64_t>(tile.q_row) + token;
  if (params.lse != nullptr && valid && quad == 0) {
    params.lse[static_cast<int64_t>(head) * params.num_tokens + out_row] = result.lse;
  }
  auto* out = params.out + (out_row * params.num_heads + head) * kHeadDim + quad * 8;
#pragma unroll
  for (int column = 0; column < kHeadDim; column += 32) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (column / 8 + j) * 4 + 2 * r;
      pairs[j] = pack_bf16(o[i] * factor, o[i + 1] * factor);
    }
    quad_transpose(pairs, quad);
    if (valid) {
      *reinterpret_cast<uint4*>(out + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
}

}  // namespace octavo::backends::cuda
