// The arithmetic of the decode kernel: what one warp does with one tile of keys and values. Scores
// and sums are fp32 and in base 2; the matrix units multiply bfloat16, or half precision where the
// cache is E4M3 (which converts exactly to nothing else).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/ptx/exp2.cuh"
#include "backends/cuda/ptx/fp8.cuh"
#include "backends/cuda/ptx/mma.cuh"
#include "backends/cuda/ptx/opaque.cuh"
#include "backends/cuda/tile/decode_layout.h"

namespace octavo::backends::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
inline constexpr unsigned kWarpLanes = 0xFFFFFFFF;

template <class Layout>
inline constexpr bool kIsFp8 = Layout::kLoadValues == 16;

template <class Layout>
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kIsFp8<Layout>) {
    mma_m16n8k16_f16(d, a, b0, b1);
  } else {
    mma_m16n8k16_bf16(d, a, b0, b1);
  }
}

template <class Layout>
__device__ inline uint32_t pack(float low, float high) {
  if constexpr (kIsFp8<Layout>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// The query rows of a warp, in halves of 8, as operand, in softmax and in the output. A lane holds
// row g of the operand but rows 2q and 2q + 1 of all else.
template <class Layout, int kHalves>
struct DecodeRows {
  uint32_t q[kHalves][Layout::kKeySteps][2];
  float scale[kHalves][2];  // of raw scores, to base 2
  float highest[kHalves][2];
  float sum[kHalves][2];                          // of this lane's tokens
  float out[kHalves][Layout::kDimGroups / 2][4];  // two dimension groups by two rows
  int unit;  // of `out` with scales of tokens, as a float's exponent: see scale_probabilities

  __device__ void clear() {
    unit = 1;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      highest[half][0] = highest[half][1] = -INFINITY;
      sum[half][0] = sum[half][1] = 0.0f;
#pragma unroll
      for (auto& groups : out[half]) groups[0] = groups[1] = groups[2] = groups[3] = 0.0f;
    }
  }
};

// Half precision has fewer exponents than bfloat16: each row is brought below 2^15 by a power of
// two, which the row's scale takes back.
template <class Layout>
__device__ inline float fit_half_precision(uint32_t (&words)[Layout::kKeySteps * 2]) {
  float largest = 0.0f;
#pragma unroll
  for (const uint32_t word : words) {
    const float2 pair = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
    largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
  }
  largest = fmaxf(largest, __shfl_xor_sync(kWarpLanes, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(kWarpLanes, largest, 2));
  const int exponent = min(254, 268 - (__float_as_int(largest) >> 23));
  const float factor = __int_as_float(exponent << 23);
#pragma unroll
  for (uint32_t& word : words) {
    const float2 pair = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
    word = pack<Layout>(pair.x * factor, pair.y * factor);
  }
  return __int_as_float((254 - exponent) << 23);
}

// `row`: row g of half `half`, a head's query in bfloat16. Fills the operand; `scale`: of scores.
template <class Layout, int kHalves>
__device__ inline void load_query(DecodeRows<Layout, kHalves>& rows, int half, const void* row,
                                  float scale) {
  const int q = static_cast<int>(opaque(threadIdx.x) % 4);
  uint32_t words[Layout::kKeySteps * 2];
#pragma unroll
  for (int load = 0; load < Layout::kKeyLoads; ++load) {
#pragma unroll
    for (int part = 0; part < Layout::kLoadValues; part += 8) {
      const char* from = static_cast<const char*>(row) + 2 * (Layout::key_dim(load, q) + part);
      const uint4 values = *reinterpret_cast<const uint4*>(from);
      uint32_t* to = words + (load * Layout::kLoadValues + part) / 2;
      to[0] = values.x;
      to[1] = values.y;
      to[2] = values.z;
      to[3] = values.w;
    }
  }
  if constexpr (kIsFp8<Layout>) scale *= fit_half_precision<Layout>(words);
#pragma unroll
  for (int row_of_lane = 0; row_of_lane < 2; ++row_of_lane) {
    rows.scale[half][row_of_lane] = __shfl_sync(kWarpLanes, scale, 4 * (2 * q + row_of_lane));
  }
#pragma unroll
  for (int step = 0; step < Layout::kKeySteps; ++step) {
    rows.q[half][step][0] = words[2 * step];
    rows.q[half][step][1] = words[2 * step + 1];
  }
}

// Of two token groups, [pair][half]: token g of the first by rows 2q and 2q + 1, then of the
// second.
template <class Layout, int kHalves>
using Scores = float[Layout::kTokenGroups / 2][kHalves][4];

__device__ inline void exchange_if(bool condition, uint32_t& a, uint32_t& b) {
  const uint32_t first = condition ? b : a;
  b = condition ? a : b;
  a = first;
}
__device__ inline void exchange_if(bool condition, uint4& a, uint4& b) {
  exchange_if(condition, a.x, b.x);
  exchange_if(condition, a.y, b.y);
  exchange_if(condition, a.z, b.z);
  exchange_if(condition, a.w, b.w);
}

// Raw scores of a tile whose K lies at `tile`.
template <class Layout, int kHalves>
__device__ inline void score_tile(Scores<Layout, kHalves>& s,
                                  const DecodeRows<Layout, kHalves>& rows, const char* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, q = lane % 4;
  const bool swap = Layout::kSwapsKeys && g % 2 != 0;
  const char* from[2] = {tile + Layout::key_offset(0, 0, g, q),
                         tile + Layout::key_offset(1 % Layout::kKeyLoads, 0, g, q)};
  const auto multiply = [&](int pair, int step, uint32_t a0, uint32_t a1, uint32_t a2,
                            uint32_t a3) {
    const uint32_t a[4] = {a0, a1, a2, a3};
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      mma<Layout>(s[pair][half], a, rows.q[half][step][0], rows.q[half][step][1]);
    }
  };
#pragma unroll
  for (auto& pair : s) {
    for (auto& half : pair) half[0] = half[1] = half[2] = half[3] = 0.0f;
  }
  constexpr int kTogether = Layout::kSwapsKeys ? 2 : 1;
#pragma unroll
  for (int first = 0; first < Layout::kKeyLoads; first += kTogether) {
#pragma unroll
    for (int pair = 0; pair < Layout::kTokenGroups / 2; ++pair) {
      uint4 x[kTogether], y[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const char* at = from[i] + first * 64 + pair * 2 * Layout::kGroupBytes;
        x[i] = *reinterpret_cast<const uint4*>(at);
        y[i] = *reinterpret_cast<const uint4*>(at + Layout::kGroupBytes);
      }
      if constexpr (kTogether == 2) {
        exchange_if(swap, x[0], x[1]);
        exchange_if(swap, y[0], y[1]);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if constexpr (kIsFp8<Layout>) {
          const uint32_t low[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
          const uint32_t high[4] = {y[i].x, y[i].y, y[i].z, y[i].w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply(pair, 4 * (first + i) + j, e4m3x2_to_f16x2(low[j]), e4m3x2_to_f16x2(high[j]),
                     e4m3x2_to_f16x2(low[j] >> 16), e4m3x2_to_f16x2(high[j] >> 16));
          }
        } else {
          multiply(pair, 2 * (first + i), x[i].x, y[i].x, x[i].y, y[i].y);
          multiply(pair, 2 * (first + i) + 1, x[i].z, y[i].z, x[i].w, y[i].w);
        }
      }
    }
  }
}

template <class Layout, int kHalves>
__device__ inline void scale_scores(Scores<Layout, kHalves>& s,
                                    const DecodeRows<Layout, kHalves>& rows, float softcap) {
#pragma unroll
  for (auto& pair : s) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) pair[half][i] *= rows.scale[half][i % 2];
    }
  }
  if (softcap <= 0.0f) return;
  const float inverse = 2.0f / softcap;
#pragma unroll
  for (auto& pair : s) {
#pragma unroll
    for (auto& half : pair) {
#pragma unroll
      for (float& score : half) {  // tanh(x) = 1 - 2 / (e^2x + 1), of a score to base 2
        const float e = exp2_approx(score * inverse);
        score = softcap * kLog2E * (1.0f - __fdividef(2.0f, e + 1.0f));
      }
    }
  }
}

// Scores become probabilities relative to the row's highest score so far, to which `rows` is
// brought.
template <class Layout, int kHalves>
__device__ inline void softmax_tile(Scores<Layout, kHalves>& s, DecodeRows<Layout, kHalves>& rows) {
  float rescale[kHalves][2];
  bool rises = false;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float highest = rows.highest[half][row];
#pragma unroll
      for (auto& pair : s) {
        highest = fmaxf(highest, fmaxf(pair[half][row], pair[half][2 + row]));
      }
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        highest = fmaxf(highest, __shfl_xor_sync(kWarpLanes, highest, lanes));
      }
      const float base = highest == -INFINITY ? 0.0f : highest;
      rescale[half][row] = exp2_approx(rows.highest[half][row] - base);
      rises |= rows.highest[half][row] != highest;
      rows.highest[half][row] = highest;
      float sum = 0.0f;
#pragma unroll
      for (auto& pair : s) {
        pair[half][row] = exp2_approx(pair[half][row] - base);
        pair[half][2 + row] = exp2_approx(pair[half][2 + row] - base);
        sum += pair[half][row] + pair[half][2 + row];
      }
      rows.sum[half][row] = rows.sum[half][row] * rescale[half][row] + sum;
    }
  }
  // A row whose highest score stays multiplies by exactly 1: skipping that changes nothing.
  if (!__any_sync(kWarpLanes, rises)) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (auto& groups : rows.out[half]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) groups[i] *= rescale[half][i % 2];
    }
  }
}

// What a lane loads of one token's V: the words of the spans that change places, from `first` on.
template <class Layout>
struct ValueWords {
  static constexpr int kWords = Layout::kSpanBytes / 4;
  uint32_t spans[Layout::kTurns][kWords];

  // `from`: where the lane's loads go, of the first group's token; then `offset` further.
  __device__ ValueWords(const char* const (&from)[Layout::kSpans], int first, int offset) {
#pragma unroll
    for (int i = 0; i < Layout::kTurns; ++i) {
      if constexpr (kWords == 4) {
        const uint4 v = *reinterpret_cast<const uint4*>(from[first + i] + offset);
        spans[i][0] = v.x, spans[i][1] = v.y, spans[i][2] = v.z, spans[i][3] = v.w;
      } else {
        const uint2 v = *reinterpret_cast<const uint2*>(from[first + i] + offset);
        spans[i][0] = v.x, spans[i][1] = v.y;
      }
    }
    // Load i brought span i ^ (q % kTurns).
    const int q = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int bit = 1; bit < Layout::kTurns; bit *= 2) {
#pragma unroll
      for (int i = 0; i < Layout::kTurns; ++i) {
        if ((i & bit) != 0) continue;
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
          exchange_if((q & bit) != 0, spans[i][word], spans[i + bit][word]);
        }
      }
    }
  }
};

// out += Vᵀ · Pᵀ for one step and the spans from `first` on that change places; `even`, `odd`:
// where the loads of the lane's tokens 2q and 2q + 1 go, of the first group, then `offset` further.
template <class Layout, int kHalves>
__device__ inline void add_values(DecodeRows<Layout, kHalves>& rows,
                                  const uint32_t (&p)[kHalves][2],
                                  const char* const (&even)[Layout::kSpans],
                                  const char* const (&odd)[Layout::kSpans], int first, int offset) {
  using Words = ValueWords<Layout>;
  const Words a(even, first, offset), b(odd, first, offset);
  const Words c(even, first, offset + Layout::kGroupBytes);
  const Words d(odd, first, offset + Layout::kGroupBytes);
  const auto multiply = [&](int groups, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3) {
    const uint32_t v[4] = {a0, a1, a2, a3};
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      mma<Layout>(rows.out[half][first * Layout::kSpanValues / 2 + groups], v, p[half][0],
                  p[half][1]);
    }
  };
#pragma unroll
  for (int i = 0; i < Layout::kTurns * Words::kWords; ++i) {
    const int span = i / Words::kWords, word = i % Words::kWords;
    const uint32_t a_word = a.spans[span][word], b_word = b.spans[span][word];
    const uint32_t c_word = c.spans[span][word], d_word = d.spans[span][word];
    if constexpr (kIsFp8<Layout>) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t select = pair == 0 ? 0x5140 : 0x7362;
        const uint32_t low = __byte_perm(a_word, b_word, select);
        const uint32_t high = __byte_perm(c_word, d_word, select);
        multiply(2 * i + pair, e4m3x2_to_f16x2(low), e4m3x2_to_f16x2(low >> 16),
                 e4m3x2_to_f16x2(high), e4m3x2_to_f16x2(high >> 16));
      }
    } else {
      multiply(i, __byte_perm(a_word, b_word, 0x5410), __byte_perm(a_word, b_word, 0x7632),
               __byte_perm(c_word, d_word, 0x5410), __byte_perm(c_word, d_word, 0x7632));
    }
  }
}

// out += Vᵀ · Pᵀ of a tile whose V lies at `tile`.
template <class Layout, int kHalves>
__device__ inline void add_value_tile(DecodeRows<Layout, kHalves>& rows,
                                      const Scores<Layout, kHalves>& s, const char* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, q = lane % 4;
  const char* even[Layout::kSpans];
  const char* odd[Layout::kSpans];
#pragma unroll
  for (int i = 0; i < Layout::kSpans; ++i) {
    even[i] = tile + Layout::value_offset(i, 0, 2 * q, g);
    odd[i] = tile + Layout::value_offset(i, 0, 2 * q + 1, g);
  }
  uint32_t p[Layout::kTokenGroups / 2][kHalves][2];
#pragma unroll
  for (int step = 0; step < Layout::kTokenGroups / 2; ++step) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      p[step][half][0] = transpose_8x8(pack<Layout>(s[step][half][0], s[step][half][1]));
      p[step][half][1] = transpose_8x8(pack<Layout>(s[step][half][2], s[step][half][3]));
    }
  }
#pragma unroll
  for (int step = 0; step < Layout::kTokenGroups / 2; ++step) {
#pragma unroll
    for (int first = 0; first < Layout::kSpans; first += Layout::kTurns) {
      add_values<Layout, kHalves>(rows, p[step], even, odd, first, step * 2 * Layout::kGroupBytes);
    }
  }
}

}  // namespace octavo::backends::cuda
