// The inner products of attention in float: keys and values become panels, which all queries are
// multiplied with.
#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/float_panels.inl"

namespace octavo::backends::cpu {
namespace {

// The scale behind the codes of a row.
OCTAVO_INLINE float row_scale(const void* row, int64_t count) {
  float scale;
  memcpy(&scale, static_cast<const char*>(row) + count, sizeof(scale));
  return scale;
}

OCTAVO_INLINE float code_value(const void* row, int64_t i, float scale) {
  return static_cast<float>(static_cast<const int8_t*>(row)[i]) * scale;
}

// Codes with their sign bit flipped, one to a lane: (bits - 128) * scale, rounded once.
OCTAVO_INLINE Vec code_values(IntVec bits, Vec scale) {
  return fma(to_float(bits), scale, scale * set1(-128));
}

void widen_codes(float* dst, const void* src, int64_t count) {
  const float scale = row_scale(src, count);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const IntVec bytes = load_bytes(static_cast<const int8_t*>(src) + i);
    store(dst + i, code_values(xor_int(bytes, set1_int(128)), set1(scale)));
  }
  for (; i < count; ++i) dst[i] = code_value(src, i, scale);
}

void unpack_codes(float* dst, const void* const* rows, int64_t count) {
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

void scale_query(float* dst, const float* q, float scale, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; ++d) dst[d] = q[d] * scale;
}

template <FloatUnpack kUnpack>
void score(const ScorePanel& a) {
  auto* panel = static_cast<float*>(a.scratch);
  kUnpack(panel, a.keys, a.head_dim);
  multiply({a.scores, a.scores_stride, a.queries, a.head_dim, a.num_queries, panel, kPanel,
            a.head_dim, false});
}

template <void (*kWiden)(float*, const void*, int64_t)>
void weigh(const WeighRows& a) {
  auto* panel = static_cast<float*>(a.scratch);
  const int64_t padded = (a.head_dim + kPanel - 1) / kPanel * kPanel;
  for (int64_t r = 0; r < a.count; ++r) {
    float* dst = panel + r * padded;
    kWiden(dst, a.rows[r], a.head_dim);
    for (int64_t d = a.head_dim; d < padded; ++d) dst[d] = 0;
  }
  for (int64_t d = 0; d < padded; d += kPanel) {
    multiply({a.out + d, padded, a.weights, a.weights_stride, a.num_queries, panel + d, padded,
              a.count, a.accumulate});
  }
}

}  // namespace
}  // namespace octavo::backends::cpu
