// Products of bfloat16 weights and activations: vdpbf16ps multiplies two of k in each lane and adds
// them to a float sum.
#include <immintrin.h>

#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"

namespace octavo::backends::cpu {
namespace {

constexpr int kTileRows = 6;  // 12 sums, two panel vectors, a broadcast

OCTAVO_INLINE __m512bh as_bf16(IntVec v) {
  __m512bh result;
  memcpy(&result, &v, sizeof(result));
  return result;
}

void round_to_bf16(uint32_t* dst, const float* src, int64_t count) {
  int64_t i = 0;
  auto* values = reinterpret_cast<char*>(dst);
  for (; i + kLanes <= count; i += kLanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(load(src + i));
    memcpy(values + 2 * i, &rounded, sizeof(rounded));
  }
  if (i == count) return;
  float rest[kLanes] = {};
  memcpy(rest, src + i, static_cast<size_t>(count - i) * sizeof(float));
  const __m256bh rounded = _mm512_cvtneps_pbh(load(rest));
  memcpy(values + 2 * i, &rounded, static_cast<size_t>((count - i + 1) / 2) * sizeof(uint32_t));
}

void unpack(uint32_t* dst, const void* const* rows, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      IntVec words[4];
      load_transposed(words, rows + lane, 2 * i);
      for (int w = 0; w < 4; ++w) {
        _mm512_storeu_si512(dst + (i / 2 + w) * kPanel + lane, words[w]);
      }
    }
  }
  for (; i < count; i += 2) {
    for (int r = 0; r < kPanel; ++r) {
      uint32_t word = 0;
      memcpy(&word, static_cast<const char*>(rows[r]) + 2 * i, i + 1 < count ? 4 : 2);
      dst[i / 2 * kPanel + r] = word;
    }
  }
}

template <int kRows>
OCTAVO_INLINE void multiply_tile(const Bf16Multiply& a, int64_t row) {
  const uint32_t* x = a.x + row * a.x_stride;
  float* out = a.out + row * a.out_stride;
  Vec sums[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sums[r][v] = a.accumulate ? load(out + r * a.out_stride + v * kLanes) : set1(0);
    }
  }
  const bool packed = a.lane_stride != 0;
  const int64_t lane = packed ? a.lane_stride : kLanes;
  const int64_t step = packed ? kLanes : kPanel;
  const int64_t ahead = packed ? kPrefetchAhead / static_cast<int64_t>(sizeof(uint32_t)) : 0;
  const uint32_t* panel = a.panel;
  for (int64_t pair = 0; pair < a.pairs; ++pair, panel += step) {
    __builtin_prefetch(panel + ahead, 0, 2);
    __builtin_prefetch(panel + lane + ahead, 0, 2);
    const __m512bh w0 = as_bf16(_mm512_loadu_si512(panel));
    const __m512bh w1 = as_bf16(_mm512_loadu_si512(panel + lane));
    for (int r = 0; r < kRows; ++r) {
      const __m512bh two = as_bf16(set1_int(static_cast<int32_t>(x[r * a.x_stride + pair])));
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], w0, two);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], w1, two);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) store(out + r * a.out_stride + v * kLanes, sums[r][v]);
  }
}

template <int kRows>
void multiply_rest(const Bf16Multiply& a, int64_t row) {
  if constexpr (kRows > 0) {
    if (a.rows - row == kRows) {
      multiply_tile<kRows>(a, row);
    } else {
      multiply_rest<kRows - 1>(a, row);
    }
  }
}

void multiply(const Bf16Multiply& a) {
  int64_t row = 0;
  for (; row + kTileRows <= a.rows; row += kTileRows) multiply_tile<kTileRows>(a, row);
  multiply_rest<kTileRows - 1>(a, row);
}

}  // namespace

const Bf16Kernels kBf16Avx512 = {kPanel, kTileRows, round_to_bf16, unpack, multiply};

}  // namespace octavo::backends::cpu
