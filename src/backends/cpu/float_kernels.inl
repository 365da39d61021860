// The float micro-kernels, written over simd.h and included by one file per instruction set.
#include "backends/cpu/attention_kernels.inl"
#include "backends/cpu/float_panels.inl"

namespace octavo::backends::cpu {
namespace {

<<<<<<< HEAD
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

=======
>>>>>>> main
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
    {unpack_quantized<ops::BlockQ4_0>, unpack_quantized<ops::BlockQ4_1>,
     unpack_quantized<ops::BlockQ5_0>, unpack_quantized<ops::BlockQ5_1>,
     unpack_quantized<ops::BlockQ8_0>, unpack_quantized<ops::BlockQ2_K>,
     unpack_quantized<ops::BlockQ3_K>, unpack_quantized<ops::BlockQ4_K>,
     unpack_quantized<ops::BlockQ5_K>, unpack_quantized<ops::BlockQ6_K>,
     unpack_quantized<ops::BlockIQ4_NL>, unpack_quantized<ops::BlockIQ4_XS>,
     unpack_quantized<ops::BlockMXFP4>},
<<<<<<< HEAD
    unpack_lanes<Format::kF16>,
    unpack_lanes<Format::kBF16>,
    widen<Format::kF16>,
    widen<Format::kBF16>,
=======
>>>>>>> main
    multiply,
    {{scale_query, score<unpack<Format::kF32>>, weigh<widen<Format::kF32>>},
     {scale_query, score<unpack<Format::kF16>>, weigh<widen<Format::kF16>>},
     {scale_query, score<unpack<Format::kBF16>>, weigh<widen<Format::kBF16>>},
     {scale_query, score<unpack_codes>, weigh<widen_codes>}},
    softmax,
    silu_mul,
    gelu_tanh_mul,
    softcap,
};

}  // namespace
}  // namespace octavo::backends::cpu
