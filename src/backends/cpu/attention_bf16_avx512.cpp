// The inner products of attention by vdpbf16ps, two values of head_dim or two positions to a lane.
// Rows of int8 codes, which bfloat16 holds exactly, become rows of bfloat16 first; their scales
// meet the scores, and the weights before these are rounded. For a few queries keys and values go
// from the cache to registers, for more through a panel in memory: the same products in the same
// order.
#include <immintrin.h>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"

namespace octavo::backends::cpu {
namespace {

constexpr int kFewQueries = 6;  // 12 sums, 8 words of keys

OCTAVO_INLINE __m512bh as_bf16(IntVec v) {
  __m512bh result;
  memcpy(&result, &v, sizeof(result));
  return result;
}

OCTAVO_INLINE Vec add_products(Vec sum, IntVec words, uint32_t two) {
  return _mm512_dpbf16_ps(sum, as_bf16(words), as_bf16(set1_int(static_cast<int32_t>(two))));
}

// Words `pair` of kLanes rows, of which `bytes` are there.
OCTAVO_INLINE IntVec load_pair(const void* const* rows, int64_t pair, size_t bytes) {
  uint32_t words[kLanes] = {};
  for (int r = 0; r < kLanes; ++r) {
    memcpy(&words[r], static_cast<const char*>(rows[r]) + 4 * pair, bytes);
  }
  return load_int(words);
}

template <int kQueries>
void score_few(const ScorePanel& a) {
  const auto* queries = reinterpret_cast<const uint32_t*>(a.queries);
  Vec sums[kQueries][2];
  for (auto& sum : sums) sum[0] = sum[1] = set1(0);
  int64_t i = 0;
  for (; i + 8 <= a.head_dim; i += 8) {
    IntVec words[2][4];
    load_transposed(words[0], a.keys, 2 * i);
    load_transposed(words[1], a.keys + kLanes, 2 * i);
    for (int w = 0; w < 4; ++w) {
      for (int q = 0; q < kQueries; ++q) {
        const uint32_t two = queries[q * a.head_dim + i / 2 + w];
        sums[q][0] = add_products(sums[q][0], words[0][w], two);
        sums[q][1] = add_products(sums[q][1], words[1][w], two);
      }
    }
  }
  for (; i < a.head_dim; i += 2) {
    const size_t bytes = i + 1 < a.head_dim ? 4 : 2;
    const IntVec low = load_pair(a.keys, i / 2, bytes);
    const IntVec high = load_pair(a.keys + kLanes, i / 2, bytes);
    for (int q = 0; q < kQueries; ++q) {
      const uint32_t two = queries[q * a.head_dim + i / 2];
      sums[q][0] = add_products(sums[q][0], low, two);
      sums[q][1] = add_products(sums[q][1], high, two);
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int v = 0; v < 2; ++v) store(a.scores + q * a.scores_stride + v * kLanes, sums[q][v]);
  }
}

// Values d to d + 31 of two rows side by side: those of lane i are row r, d + i, and row r + 1.
struct TwoRows {
  IntVec low, high;
};
OCTAVO_INLINE TwoRows load_two_rows(const WeighRows& a, int64_t r, int64_t d) {
  const int64_t left = a.head_dim - d;
  const __mmask32 mask = left >= kPanel ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  const auto load_row = [&](int64_t row) {
    if (row >= a.count) return _mm512_setzero_si512();
    return _mm512_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(a.rows[row]) + d);
  };
  // 16-bit positions 2i and 2i + 1 come from positions i of the two rows.
  const IntVec lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const IntVec low = add_int(lanes, shift_left<16>(add_int(lanes, set1_int(32))));
  const IntVec high = add_int(low, set1_int(16 << 16 | 16));
  const IntVec first = load_row(r);
  const IntVec second = load_row(r + 1);
  return {_mm512_permutex2var_epi16(first, low, second),
          _mm512_permutex2var_epi16(first, high, second)};
}

template <int kQueries>
void weigh_few(const WeighRows& a, const uint32_t* weights, int64_t padded) {
  for (int64_t d = 0; d < padded; d += kPanel) {
    float* out = a.out + d;
    Vec sums[kQueries][2];
    for (int q = 0; q < kQueries; ++q) {
      for (int v = 0; v < 2; ++v) {
        sums[q][v] = a.accumulate ? load(out + q * padded + v * kLanes) : set1(0);
      }
    }
    for (int64_t r = 0; r < a.count; r += 2) {
      const TwoRows rows = load_two_rows(a, r, d);
      for (int q = 0; q < kQueries; ++q) {
        const uint32_t two = weights[q * (kValueChunk / 2) + r / 2];
        sums[q][0] = add_products(sums[q][0], rows.low, two);
        sums[q][1] = add_products(sums[q][1], rows.high, two);
      }
    }
    for (int q = 0; q < kQueries; ++q) {
      for (int v = 0; v < 2; ++v) store(out + q * padded + v * kLanes, sums[q][v]);
    }
  }
}

// Calls few<n>(args...) for n = num_queries; false where these are many.
template <int kQueries = kFewQueries, typename Few>
OCTAVO_INLINE bool call_few(int64_t num_queries, const Few& few) {
  if constexpr (kQueries > 0) {
    if (num_queries != kQueries) return call_few<kQueries - 1>(num_queries, few);
    few.template operator()<kQueries>();
    return true;
  }
  return false;
}

void score(const ScorePanel& a) {
  if (call_few(a.num_queries, [&]<int kQueries>() { score_few<kQueries>(a); })) return;
  auto* panel = static_cast<uint32_t*>(a.scratch);
  kBf16Avx512.unpack(panel, a.keys, a.head_dim);
  kBf16Avx512.multiply({a.scores, a.scores_stride, reinterpret_cast<const uint32_t*>(a.queries),
                        a.head_dim, a.num_queries, panel, (a.head_dim + 1) / 2, false});
}

// `weights`: [num_queries, kValueChunk / 2] pairs.
void weigh_pairs(const WeighRows& a, const uint32_t* weights, uint32_t* panel) {
  const int64_t padded = (a.head_dim + kPanel - 1) / kPanel * kPanel;
  if (call_few(a.num_queries, [&]<int kQueries>() { weigh_few<kQueries>(a, weights, padded); })) {
    return;
  }
  const int64_t pairs = (a.count + 1) / 2;
  for (int64_t d = 0; d < padded; d += kPanel) {
    for (int64_t p = 0; p < pairs; ++p) {
      const TwoRows rows = load_two_rows(a, 2 * p, d);
      _mm512_storeu_si512(panel + p * kPanel, rows.low);
      _mm512_storeu_si512(panel + p * kPanel + kLanes, rows.high);
    }
    kBf16Avx512.multiply(
        {a.out + d, padded, weights, kValueChunk / 2, a.num_queries, panel, pairs, a.accumulate});
  }
}

void weigh(const WeighRows& a) {
  auto* weights = static_cast<uint32_t*>(a.scratch);
  for (int64_t i = 0; i < a.num_queries; ++i) {
    kBf16Avx512.round(weights + i * (kValueChunk / 2), a.weights + i * a.weights_stride, a.count);
  }
  weigh_pairs(a, weights, weights + a.num_queries * (kValueChunk / 2));
}

OCTAVO_INLINE IntVec codes_to_bf16(__m256i codes) {
  const Vec low = to_float(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(codes)));
  const Vec high = to_float(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(codes, 1)));
  const __m512bh values = _mm512_cvtne2ps_pbh(high, low);
  IntVec result;
  memcpy(&result, &values, sizeof(result));
  return result;
}

// The codes of a row as bfloat16; gives its scale.
OCTAVO_INLINE float widen_codes(uint16_t* dst, const void* row, int64_t count) {
  const auto* codes = static_cast<const int8_t*>(row);
  int64_t i = 0;
  for (; i + kPanel <= count; i += kPanel) {
    const auto* p = reinterpret_cast<const __m256i*>(codes + i);
    _mm512_storeu_si512(dst + i, codes_to_bf16(_mm256_loadu_si256(p)));
  }
  if (i < count) {
    const __mmask32 mask = (__mmask32{1} << (count - i)) - 1;
    const IntVec values = codes_to_bf16(_mm256_maskz_loadu_epi8(mask, codes + i));
    _mm512_mask_storeu_epi16(dst + i, mask, values);
  }
  float scale;
  memcpy(&scale, codes + count, sizeof(scale));
  return scale;
}

void score_codes(const ScorePanel& a) {
  auto* values = static_cast<uint16_t*>(a.scratch);
  const void* keys[kPanel];
  float scales[kPanel];
  for (int r = 0; r < kPanel; ++r) {
    keys[r] = values + r * a.head_dim;
    scales[r] = widen_codes(values + r * a.head_dim, a.keys[r], a.head_dim);
  }
  ScorePanel widened = a;
  widened.keys = keys;
  widened.scratch = values + kPanel * a.head_dim;
  score(widened);
  for (int64_t i = 0; i < a.num_queries; ++i) {
    float* scores = a.scores + i * a.scores_stride;
    for (int v = 0; v < kPanel; v += kLanes) store(scores + v, load(scores + v) * load(scales + v));
  }
}

void weigh_codes(const WeighRows& a) {
  auto* weights = static_cast<uint32_t*>(a.scratch);
  auto* values = reinterpret_cast<uint16_t*>(weights + a.num_queries * (kValueChunk / 2));
  const void* rows[kValueChunk];
  float scales[kValueChunk] = {};
  for (int64_t r = 0; r < a.count; ++r) {
    rows[r] = values + r * a.head_dim;
    scales[r] = widen_codes(values + r * a.head_dim, a.rows[r], a.head_dim);
  }
  for (int64_t i = 0; i < a.num_queries; ++i) {
    float scaled[kValueChunk];
    const float* from = a.weights + i * a.weights_stride;
    for (int64_t r = 0; r < a.count; ++r) scaled[r] = from[r] * scales[r];
    kBf16Avx512.round(weights + i * (kValueChunk / 2), scaled, a.count);
  }
  WeighRows widened = a;
  widened.rows = rows;
  weigh_pairs(widened, weights, reinterpret_cast<uint32_t*>(values + kValueChunk * a.head_dim));
}

void pack_query(float* dst, const float* q, float scale, int64_t head_dim) {
  constexpr int64_t kStep = 2 * kLanes;
  auto* words = reinterpret_cast<uint32_t*>(dst);
  for (int64_t d = 0; d < head_dim; d += kStep) {
    const int64_t count = head_dim - d < kStep ? head_dim - d : kStep;
    float scaled[kStep];
    for (int64_t i = 0; i < count; ++i) scaled[i] = q[d + i] * scale;
    kBf16Avx512.round(words + d / 2, scaled, count);
  }
}

}  // namespace

const AttentionKernel kAttentionBf16Avx512[kNumKvTypes] = {
    {nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr},
    {pack_query, score, weigh},
    {pack_query, score_codes, weigh_codes},
};

}  // namespace octavo::backends::cpu
