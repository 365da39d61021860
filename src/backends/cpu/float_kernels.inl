// The float micro-kernels, written over simd.h and included by one file per instruction set.
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

// Codes of a KV cache with their sign bit flipped, one to a lane: (bits - 128) * scale, rounded once.
OCTAVO_INLINE Vec code_values(IntVec bits, Vec scale) {
  return fma(to_float(bits), scale, scale * set1(-128));
}

OCTAVO_INLINE float row_scale(const void* row, int64_t count) {
  float scale;
  memcpy(&scale, static_cast<const char*>(row) + count, sizeof(scale));
  return scale;
}

OCTAVO_INLINE float code_value(const void* row, int64_t i, float scale) {
  return static_cast<float>(static_cast<const int8_t*>(row)[i]) * scale;
}

void widen_i8(float* dst, const void* src, int64_t count) {
  const float scale = row_scale(src, count);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const IntVec bytes = load_bytes(static_cast<const int8_t*>(src) + i);
    store(dst + i, code_values(xor_int(bytes, set1_int(128)), set1(scale)));
  }
  for (; i < count; ++i) dst[i] = code_value(src, i, scale);
}

void unpack_i8(float* dst, const void* const* rows, int64_t count) {
  constexpr int kStep = 16;
  float scales[kPanel];
  for (int r = 0; r < kPanel; ++r) scales[r] = row_scale(rows[r], count);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int half = 0; half < 2; ++half) {
      const Vec scale = load(scales + half * kLanes);
      IntVec words[4];
      load_transposed(words, rows + half * kLanes, i);
      for (int w = 0; w < 4; ++w) {
        const IntVec bits = xor_int(words[w], set1_int(static_cast<int32_t>(0x80808080)));
        float* out = dst + (i + 4 * w) * kPanel + half * kLanes;
        store(out, code_values(and_int(bits, set1_int(255)), scale));
        store(out + kPanel, code_values(and_int(shift_right<8>(bits), set1_int(255)), scale));
        store(out + 2 * kPanel, code_values(and_int(shift_right<16>(bits), set1_int(255)), scale));
        store(out + 3 * kPanel, code_values(shift_right<24>(bits), scale));
      }
    }
  }
  for (; i < count; ++i) {
    for (int r = 0; r < kPanel; ++r) dst[i * kPanel + r] = code_value(rows[r], i, scales[r]);
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
  for (int64_t k = 0; k < a.k; ++k, panel += a.panel_stride) {
    const Vec w0 = load(panel);
    const Vec w1 = load(panel + kLanes);
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

void softmax(float* scores, int64_t count, int64_t padded, float* max_out, float* sum_out) {
  const int64_t whole = count / kLanes * kLanes;
  float top = scores[0];
  Vec tops = set1(top);
  for (int64_t i = 0; i < whole; i += kLanes) tops = max(tops, load(scores + i));
  top = max_lanes(tops);
  for (int64_t i = whole; i < count; ++i) top = scores[i] > top ? scores[i] : top;

  // Lane i % kLanes sums its positions in order, whatever the count: zeros behind change nothing.
  for (int64_t i = count; i < padded; ++i) scores[i] = 0;
  Vec sums = set1(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    float rest[kLanes] = {};
    Vec e = exp(load(scores + i) - set1(top));
    if (i + kLanes > count) {
      store(rest, e);
      for (int64_t j = count - i; j < kLanes; ++j) rest[j] = 0;
      e = load(rest);
    }
    store(scores + i, e);
    sums = sums + e;
  }
  *max_out = top;
  *sum_out = sum_lanes(sums);
}

// out[i] = fn(a[i], b[i])
template <typename Fn>
OCTAVO_INLINE void map(float* out, const float* a, const float* b, int64_t count, const Fn& fn) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, fn(load(a + i), load(b + i)));
  if (i == count) return;
  float x[kLanes] = {};
  float y[kLanes] = {};
  const size_t rest_bytes = static_cast<size_t>(count - i) * sizeof(float);
  memcpy(x, a + i, rest_bytes);
  memcpy(y, b + i, rest_bytes);
  store(x, fn(load(x), load(y)));
  memcpy(out + i, x, rest_bytes);
}

void silu_mul(float* out, const float* gate, const float* up, int64_t count) {
  map(out, gate, up, count, [](Vec z, Vec u) { return z / (set1(1) + exp(set1(0) - z)) * u; });
}

void gelu_tanh_mul(float* out, const float* gate, const float* up, int64_t count) {
  // (1 + tanh(v)) / 2 = 1 / (1 + exp(-2v)); the constants are -2 sqrt(2 / pi) and that * 0.044715.
  map(out, gate, up, count, [](Vec z, Vec u) {
    const Vec minus_2v = z * fma(z * z, set1(-0.0713548163f), set1(-1.59576912f));
    return z / (set1(1) + exp(minus_2v)) * u;
  });
}

void softcap(float* x, int64_t count, float cap) {
  // tanh(v) = 1 - 2 / (exp(2v) + 1): near zero off by a rounding of 1, which cap scales.
  map(x, x, x, count, [cap](Vec v, Vec) {
    const Vec e = exp(v * set1(2 / cap));
    return set1(cap) * (set1(1) - set1(2) / (e + set1(1)));
  });
}

constexpr FloatKernels kFloatKernels = {
    kPanel,
    unpack<Format::kF32>,
    unpack<Format::kF16>,
    unpack<Format::kBF16>,
    unpack_i8,
    {unpack_quantized<ops::BlockQ4_0>, unpack_quantized<ops::BlockQ4_1>,
     unpack_quantized<ops::BlockQ5_0>, unpack_quantized<ops::BlockQ5_1>,
     unpack_quantized<ops::BlockQ8_0>, unpack_quantized<ops::BlockQ2_K>,
     unpack_quantized<ops::BlockQ3_K>, unpack_quantized<ops::BlockQ4_K>,
     unpack_quantized<ops::BlockQ5_K>, unpack_quantized<ops::BlockQ6_K>,
     unpack_quantized<ops::BlockIQ4_NL>, unpack_quantized<ops::BlockIQ4_XS>,
     unpack_quantized<ops::BlockMXFP4>},
    widen<Format::kF16>,
    widen<Format::kBF16>,
    widen_i8,
    multiply,
    softmax,
    silu_mul,
    gelu_tanh_mul,
    softcap,
};

}  // namespace
}  // namespace octavo::backends::cpu
