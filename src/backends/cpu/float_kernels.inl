// The float micro-kernels, written over simd.h and included by one file per instruction set.
#include "backends/cpu/attention_kernels.inl"
#include "backends/cpu/float_panels.inl"

namespace octavo::backends::cpu {
namespace {

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
    unpack_lanes<Format::kF16>,
    unpack_lanes<Format::kBF16>,
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
