// One vector type for three instruction sets, chosen by what the including file is compiled for, so
// that a kernel is written once. Everything is internal to the including file: the same name means
// different code in each. Without AVX2 it is the compiler's own 4-lane vectors.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define OCTAVO_INLINE inline __attribute__((always_inline))

namespace octavo::backends::cpu {
namespace {

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using Vec = __m512;
using IntVec = __m512i;

OCTAVO_INLINE Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
OCTAVO_INLINE void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
OCTAVO_INLINE Vec set1(float v) {
  return _mm512_set1_ps(v);
}
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
OCTAVO_INLINE Vec max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
OCTAVO_INLINE Vec min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
OCTAVO_INLINE Vec from_bits(IntVec v) {
  return _mm512_castsi512_ps(v);
}
OCTAVO_INLINE IntVec round_to_int(Vec v) {
  return _mm512_cvtps_epi32(v);
}
OCTAVO_INLINE Vec to_float(IntVec v) {
  return _mm512_cvtepi32_ps(v);
}
OCTAVO_INLINE IntVec set1_int(int32_t v) {
  return _mm512_set1_epi32(v);
}
OCTAVO_INLINE IntVec add_int(IntVec a, IntVec b) {
  return _mm512_add_epi32(a, b);
}
OCTAVO_INLINE IntVec and_int(IntVec a, IntVec b) {
  return _mm512_and_si512(a, b);
}
OCTAVO_INLINE IntVec xor_int(IntVec a, IntVec b) {
  return _mm512_xor_si512(a, b);
}
template <int kBits>
OCTAVO_INLINE IntVec shift_left(IntVec v) {
  return _mm512_slli_epi32(v, kBits);
}
template <int kBits>
OCTAVO_INLINE IntVec shift_right(IntVec v) {
  return _mm512_srli_epi32(v, kBits);
}
OCTAVO_INLINE IntVec shift_right(IntVec v, int bits) {
  return _mm512_srl_epi32(v, _mm_cvtsi32_si128(bits));
}
// table[i] for every byte i of `indexes`, all below 16.
OCTAVO_INLINE IntVec look_up(const int8_t (&table)[16], IntVec indexes) {
  const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(levels), indexes);
}
// The low half of every 32-bit lane as an IEEE half.
OCTAVO_INLINE Vec half_to_float(IntVec v) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}
OCTAVO_INLINE Vec load_f16(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
OCTAVO_INLINE IntVec load_int(const void* p) {
  return _mm512_loadu_si512(p);
}
// Unsigned, one to a lane.
OCTAVO_INLINE IntVec load_halves(const void* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
OCTAVO_INLINE IntVec load_bytes(const void* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
OCTAVO_INLINE Vec load_bf16(const void* p) {
  return from_bits(shift_left<16>(load_halves(p)));
}

// out[i] = 32-bit word i of the 16 bytes at rows[0..kLanes) + offset, row r in lane r.
OCTAVO_INLINE void load_transposed(IntVec (&out)[4], const void* const* rows, int64_t offset) {
  IntVec v[4];
  for (int i = 0; i < 4; ++i) {
    const auto row = [&](int lane) {
      const char* p = static_cast<const char*>(rows[4 * lane + i]) + offset;
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(row(0)), row(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(row(2)), row(3), 1);
    v[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  const IntVec a = _mm512_unpacklo_epi32(v[0], v[1]);
  const IntVec b = _mm512_unpackhi_epi32(v[0], v[1]);
  const IntVec c = _mm512_unpacklo_epi32(v[2], v[3]);
  const IntVec d = _mm512_unpackhi_epi32(v[2], v[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

#elif defined(__AVX2__)

constexpr int kLanes = 8;
using Vec = __m256;
using IntVec = __m256i;

OCTAVO_INLINE Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
OCTAVO_INLINE void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
OCTAVO_INLINE Vec set1(float v) {
  return _mm256_set1_ps(v);
}
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
OCTAVO_INLINE Vec max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
OCTAVO_INLINE Vec min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
OCTAVO_INLINE Vec from_bits(IntVec v) {
  return _mm256_castsi256_ps(v);
}
OCTAVO_INLINE IntVec round_to_int(Vec v) {
  return _mm256_cvtps_epi32(v);
}
OCTAVO_INLINE Vec to_float(IntVec v) {
  return _mm256_cvtepi32_ps(v);
}
OCTAVO_INLINE IntVec set1_int(int32_t v) {
  return _mm256_set1_epi32(v);
}
OCTAVO_INLINE IntVec add_int(IntVec a, IntVec b) {
  return _mm256_add_epi32(a, b);
}
OCTAVO_INLINE IntVec and_int(IntVec a, IntVec b) {
  return _mm256_and_si256(a, b);
}
OCTAVO_INLINE IntVec xor_int(IntVec a, IntVec b) {
  return _mm256_xor_si256(a, b);
}
template <int kBits>
OCTAVO_INLINE IntVec shift_left(IntVec v) {
  return _mm256_slli_epi32(v, kBits);
}
template <int kBits>
OCTAVO_INLINE IntVec shift_right(IntVec v) {
  return _mm256_srli_epi32(v, kBits);
}
OCTAVO_INLINE IntVec shift_right(IntVec v, int bits) {
  return _mm256_srl_epi32(v, _mm_cvtsi32_si128(bits));
}
OCTAVO_INLINE IntVec look_up(const int8_t (&table)[16], IntVec indexes) {
  const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), indexes);
}
OCTAVO_INLINE Vec half_to_float(IntVec v) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  return _mm256_cvtph_ps(packed);
}
OCTAVO_INLINE Vec load_f16(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
OCTAVO_INLINE IntVec load_int(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
OCTAVO_INLINE IntVec load_halves(const void* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
OCTAVO_INLINE IntVec load_bytes(const void* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
OCTAVO_INLINE Vec load_bf16(const void* p) {
  return from_bits(shift_left<16>(load_halves(p)));
}

OCTAVO_INLINE void load_transposed(IntVec (&out)[4], const void* const* rows, int64_t offset) {
  IntVec v[4];
  for (int i = 0; i < 4; ++i) {
    const auto row = [&](int lane) {
      const char* p = static_cast<const char*>(rows[4 * lane + i]) + offset;
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    };
    v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(row(0)), row(1), 1);
  }
  const IntVec a = _mm256_unpacklo_epi32(v[0], v[1]);
  const IntVec b = _mm256_unpackhi_epi32(v[0], v[1]);
  const IntVec c = _mm256_unpacklo_epi32(v[2], v[3]);
  const IntVec d = _mm256_unpackhi_epi32(v[2], v[3]);
  out[0] = _mm256_unpacklo_epi64(a, c);
  out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d);
  out[3] = _mm256_unpackhi_epi64(b, d);
}

#else

constexpr int kLanes = 4;
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IntVec __attribute__((vector_size(16)));

OCTAVO_INLINE Vec load(const float* p) {
  Vec v;
  memcpy(&v, p, sizeof(v));
  return v;
}
OCTAVO_INLINE void store(float* p, Vec v) {
  memcpy(p, &v, sizeof(v));
}
OCTAVO_INLINE Vec set1(float v) {
  return Vec{v, v, v, v};
}
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return a * b + c;
}
OCTAVO_INLINE Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}
OCTAVO_INLINE Vec min(Vec a, Vec b) {
  return a < b ? a : b;
}
OCTAVO_INLINE Vec from_bits(IntVec v) {
  return reinterpret_cast<Vec>(v);
}
// Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits (|v| < 2^22).
OCTAVO_INLINE IntVec round_to_int(Vec v) {
  return reinterpret_cast<IntVec>(v + set1(0x1.8p23f)) - 0x4B400000;
}
OCTAVO_INLINE Vec to_float(IntVec v) {
  return __builtin_convertvector(v, Vec);
}
OCTAVO_INLINE IntVec set1_int(int32_t v) {
  return IntVec{v, v, v, v};
}
OCTAVO_INLINE IntVec add_int(IntVec a, IntVec b) {
  return a + b;
}
OCTAVO_INLINE IntVec and_int(IntVec a, IntVec b) {
  return a & b;
}
OCTAVO_INLINE IntVec xor_int(IntVec a, IntVec b) {
  return a ^ b;
}
template <int kBits>
OCTAVO_INLINE IntVec shift_left(IntVec v) {
  return v << kBits;
}
typedef uint32_t UnsignedVec __attribute__((vector_size(16)));
template <int kBits>
OCTAVO_INLINE IntVec shift_right(IntVec v) {
  return reinterpret_cast<IntVec>(reinterpret_cast<UnsignedVec>(v) >> kBits);
}
OCTAVO_INLINE IntVec shift_right(IntVec v, int bits) {
  return reinterpret_cast<IntVec>(reinterpret_cast<UnsignedVec>(v) >> bits);
}
OCTAVO_INLINE IntVec look_up(const int8_t (&table)[16], IntVec indexes) {
  uint8_t bytes[sizeof(IntVec)];
  memcpy(bytes, &indexes, sizeof(bytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(table[byte]);
  memcpy(&indexes, bytes, sizeof(bytes));
  return indexes;
}
// Exponent and mantissa move into place; the product scales by 2^112, which also makes subnormal
// halves right. Infinity and NaN keep an all-ones exponent.
OCTAVO_INLINE Vec half_to_float(IntVec v) {
  const IntVec magnitude = (v & 0x7FFF) << 13;
  const Vec scaled = from_bits(magnitude) * set1(0x1p112f);
  const IntVec special = (v & 0x7C00) == 0x7C00;
  const IntVec bits = reinterpret_cast<IntVec>(scaled) | (special & 0x7F800000);
  return from_bits(bits | (v & 0x8000) << 16);
}
OCTAVO_INLINE IntVec load_halves(const void* p) {
  uint16_t words[4];
  memcpy(words, p, sizeof(words));
  return IntVec{words[0], words[1], words[2], words[3]};
}
OCTAVO_INLINE IntVec load_bytes(const void* p) {
  uint8_t bytes[4];
  memcpy(bytes, p, sizeof(bytes));
  return IntVec{bytes[0], bytes[1], bytes[2], bytes[3]};
}
OCTAVO_INLINE Vec load_f16(const void* p) {
  return half_to_float(load_halves(p));
}
OCTAVO_INLINE Vec load_bf16(const void* p) {
  return from_bits(shift_left<16>(load_halves(p)));
}

OCTAVO_INLINE void load_transposed(IntVec (&out)[4], const void* const* rows, int64_t offset) {
  IntVec v[4];
  for (int r = 0; r < 4; ++r) memcpy(&v[r], static_cast<const char*>(rows[r]) + offset, 16);
  for (int i = 0; i < 4; ++i) out[i] = IntVec{v[0][i], v[1][i], v[2][i], v[3][i]};
}

#endif

constexpr int kPanel = 2 * kLanes;

// Bytes by which packed weights are fetched ahead of their use: hardware stops at the end of a 4 KB
// page. Decoding 135M, 2 threads on Zen 4, median of 5 or 6 runs in turn, at 0, 2048, 4096, 6144
// and 10240: Q8_0 152, 179, 187, 177, 172 tokens/s, Q4_0 257, 234, 297, 302, 263.
constexpr int64_t kPrefetchAhead = 6144;

// Lane by lane and then in lane order: the same order on every call.
OCTAVO_INLINE float sum_lanes(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

OCTAVO_INLINE float max_lanes(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  float result = lanes[0];
  for (int i = 1; i < kLanes; ++i) result = lanes[i] > result ? lanes[i] : result;
  return result;
}

// e^x to about 1e-7 relative: x = n ln 2 + r, |r| <= ln 2 / 2; Taylor's series to r^7 leaves 6e-9.
// ln 2 is split so that n times its high part is exact. Clamped to where 2^n is a normal float:
// what would underflow gives e^-87. A NaN stays one (it is the second operand of min and max).
OCTAVO_INLINE Vec exp(Vec x) {
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  x = max(set1(-87.0f), min(set1(88.0f), x));
  const IntVec n = round_to_int(x * set1(1.44269504f));
  const Vec nf = to_float(n);
  Vec r = fma(nf, set1(-0.693359375f), x);
  r = fma(nf, set1(2.12194440e-4f), r);
  Vec p = set1(1.0f / 5040);
  for (const float c : kTaylor) p = fma(p, r, set1(c));
  return p * from_bits(shift_left<23>(add_int(n, set1_int(127))));
}

}  // namespace
}  // namespace octavo::backends::cpu
