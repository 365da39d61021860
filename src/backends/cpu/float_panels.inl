// Panels of floats: from rows of every type, and multiplied with rows of activations. Written over
// simd.h for the files that float_kernels.inl is included by.
#pragma once

#include "backends/cpu/k_unpack.inl"
#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"

namespace octavo::backends::cpu {
namespace {

// Rows of the register tile: 2 * kTileRows sums, two panel vectors and a broadcast fit 16 registers
// (AVX-512 has 32, but 12 sums already hide the latency of its two 4-cycle FMA pipes).
constexpr int kTileRows = 6;

enum class Format { kF32, kF16, kBF16 };
template <Format kFormat>
constexpr int kValueBytes = kFormat == Format::kF32 ? 4 : 2;

template <Format kFormat>
OCTAVO_INLINE Vec load_values(const void* p) {
  if constexpr (kFormat == Format::kF32) return load(static_cast<const float*>(p));
  if constexpr (kFormat == Format::kF16) return load_f16(p);
  return load_bf16(p);
}

template <Format kFormat>
void widen(float* dst, const void* src, int64_t count) {
  const char* p = static_cast<const char*>(src);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(dst + i, load_values<kFormat>(p + i * kValueBytes<kFormat>));
  }
  if (i == count) return;
  const size_t rest = static_cast<size_t>(count - i);
  char bytes[kLanes * sizeof(float)] = {};
  float values[kLanes];
  memcpy(bytes, p + i * kValueBytes<kFormat>, rest * kValueBytes<kFormat>);
  store(values, load_values<kFormat>(bytes));
  memcpy(dst + i, values, rest * sizeof(float));
}

// Word `w` of every row is one value, or two of 16 bits.
template <Format kFormat>
OCTAVO_INLINE void store_word(float* dst, IntVec w) {
  if constexpr (kFormat == Format::kF32) {
    store(dst, from_bits(w));
  } else if constexpr (kFormat == Format::kBF16) {
    store(dst, from_bits(shift_left<16>(w)));
    store(dst + kPanel, from_bits(and_int(w, set1_int(static_cast<int32_t>(0xFFFF0000)))));
  } else {
    store(dst, half_to_float(w));
    store(dst + kPanel, half_to_float(shift_right<16>(w)));
  }
}

template <Format kFormat>
void unpack(float* dst, const void* const* rows, int64_t count) {
  constexpr int kWordValues = 4 / kValueBytes<kFormat>;
  constexpr int kStep = 4 * kWordValues;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int half = 0; half < 2; ++half) {
      IntVec words[4];
      load_transposed(words, rows + half * kLanes, i * kValueBytes<kFormat>);
      for (int w = 0; w < 4; ++w) {
        store_word<kFormat>(dst + (i + w * kWordValues) * kPanel + half * kLanes, words[w]);
      }
    }
  }
  for (; i < count; ++i) {
    for (int r = 0; r < kPanel; ++r) {
      const char* p = static_cast<const char*>(rows[r]) + i * kValueBytes<kFormat>;
      widen<kFormat>(dst + i * kPanel + r, p, 1);
    }
  }
}

template <Format kFormat>
void unpack_lanes(float* dst, const void* packed, int64_t lane_stride, int64_t count) {
  const char* p = static_cast<const char*>(packed);
  for (int half = 0; half < 2; ++half, p += lane_stride) {
    for (int64_t i = 0; i < count; i += 2) {
      const char* word = p + i / 2 * static_cast<int64_t>(sizeof(IntVec));
      __builtin_prefetch(word + kPrefetchAhead, 0, 2);
      IntVec two_values;
      memcpy(&two_values, word, sizeof(two_values));
      store_word<kFormat>(dst + i * kPanel + half * kLanes, two_values);
    }
  }
}

// 32 values of kLanes rows.
template <typename Block>
OCTAVO_INLINE void store_values(float* dst, const LaneBlock<kParts<Block>>& in) {
  for (int g = 0; g < kGroups; ++g) {
    const int part = g * kParts<Block> / kGroups;
    const IntVec bytes[4] = {in.codes[g], shift_right<8>(in.codes[g]), shift_right<16>(in.codes[g]),
                             shift_right<24>(in.codes[g])};
    for (int i = 0; i < 4; ++i) {
      const Vec code = to_float(and_int(bytes[i], set1_int(255))) - set1(kFormat<Block>.zero);
      store(dst + (4 * g + i) * kPanel, fma(code, in.d[part], in.m[part]));
    }
  }
}

template <typename Block>
void unpack_quantized(float* dst, const void* const* rows, int64_t count) {
  for (int64_t b = 0; b < count / (ops::kBlockValues * kSubBlocks<Block>); ++b) {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      LaneFile<Block, RowSource> file;
      file.load({rows + lane, b * static_cast<int64_t>(sizeof(Block))});
      for (int s = 0; s < kSubBlocks<Block>; ++s) {
        const int64_t first = (b * kSubBlocks<Block> + s) * ops::kBlockValues;
        store_values<Block>(dst + first * kPanel + lane, file.block(s));
      }
    }
  }
}

template <int kRows>
OCTAVO_INLINE void multiply_tile(const FloatMultiply& a, int64_t row) {
  const float* x = a.x + row * a.x_stride;
  float* out = a.out + row * a.out_stride;
  Vec sums[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sums[r][v] = a.accumulate ? load(out + r * a.out_stride + v * kLanes) : set1(0);
    }
  }
  const float* panel = a.panel;
  const int64_t lane = a.lane_stride == 0 ? kLanes : a.lane_stride;
  for (int64_t k = 0; k < a.k; ++k, panel += a.panel_stride) {
    const Vec w0 = load(panel);
    const Vec w1 = load(panel + lane);
    for (int r = 0; r < kRows; ++r) {
      const Vec value = set1(x[r * a.x_stride + k]);
      sums[r][0] = fma(value, w0, sums[r][0]);
      sums[r][1] = fma(value, w1, sums[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) store(out + r * a.out_stride + v * kLanes, sums[r][v]);
  }
}

template <int kRows>
void multiply_rest(const FloatMultiply& a, int64_t row) {
  if constexpr (kRows > 0) {
    if (a.rows - row == kRows) {
      multiply_tile<kRows>(a, row);
    } else {
      multiply_rest<kRows - 1>(a, row);
    }
  }
}

void multiply(const FloatMultiply& a) {
  int64_t row = 0;
  for (; row + kTileRows <= a.rows; row += kTileRows) multiply_tile<kTileRows>(a, row);
  multiply_rest<kTileRows - 1>(a, row);
}

}  // namespace
}  // namespace octavo::backends::cpu
