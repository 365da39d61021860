#include "backends/cpu/peak.h"

#include <immintrin.h>

// Functions name their instruction set themselves: they are intrinsics and nothing else, so that
// the linker has nothing to mix up (micro_kernels.h).
#define OCTAVO_TARGET(features) __attribute__((target(features)))

// The compiler has to take the vector for changed, and to keep it in a register.
#define OCTAVO_KEEP_128(v) asm volatile("" : "+x"(v))
#define OCTAVO_KEEP_512(v) asm volatile("" : "+v"(v))

namespace octavo::backends::cpu {
namespace {

// Sums that do not wait for each other: two instructions a cycle of up to five cycles each, and
// with the operands they fit into 16 registers.
constexpr int kSums = 10;

void multiply_add_128(int64_t rounds) {
  __m128 sums[kSums] = {};
  __m128 x = _mm_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_128(x);
    for (__m128& sum : sums) {
      sum = _mm_add_ps(sum, _mm_mul_ps(x, x));
      OCTAVO_KEEP_128(sum);
    }
  }
}

OCTAVO_TARGET("avx2,fma") void fma_256(int64_t rounds) {
  __m256 sums[kSums] = {};
  __m256 x = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_128(x);
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(x, x, sum);
      OCTAVO_KEEP_128(sum);
    }
  }
}

OCTAVO_TARGET("avx512f") void fma_512(int64_t rounds) {
  __m512 sums[kSums] = {};
  __m512 x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_512(x);
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(x, x, sum);
      OCTAVO_KEEP_512(sum);
    }
  }
}

OCTAVO_TARGET("avx512f,avx512bf16") void dot_bf16_512(int64_t rounds) {
  __m512 sums[kSums] = {};
  __m512i bits = _mm512_set1_epi32(0x3F003F00);  // pairs of 0.5
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_512(bits);
    __m512bh x;
    __builtin_memcpy(&x, &bits, sizeof(x));
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, x, x);
      OCTAVO_KEEP_512(sum);
    }
  }
}

// 16-bit operands, as the kernels of the baseline have them.
void multiply_int16_128(int64_t rounds) {
  __m128i sums[kSums] = {};
  __m128i x = _mm_set1_epi8(1);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_128(x);
    for (__m128i& sum : sums) {
      sum = _mm_add_epi32(sum, _mm_madd_epi16(x, x));
      OCTAVO_KEEP_128(sum);
    }
  }
}

// As codes of few bits allow: sums stay in 16 bits for a while.
OCTAVO_TARGET("avx2") void multiply_int8_256(int64_t rounds) {
  __m256i sums[kSums] = {};
  __m256i x = _mm256_set1_epi8(1);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_128(x);
    for (__m256i& sum : sums) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, x));
      OCTAVO_KEEP_128(sum);
    }
  }
}

OCTAVO_TARGET("avx512f,avx512vnni") void dot_int8_512(int64_t rounds) {
  __m512i sums[kSums] = {};
  __m512i x = _mm512_set1_epi32(0x01010101);
  for (int64_t i = 0; i < rounds; ++i) {
    OCTAVO_KEEP_512(x);
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, x, x);
      OCTAVO_KEEP_512(sum);
    }
  }
}

constexpr PeakLoop kLoops[] = {
    {"float32 mulps", Arithmetic::kFloat32, Isa::kGeneric, kSums * 4, multiply_add_128},
    {"float32 vfmadd 256", Arithmetic::kFloat32, Isa::kAvx2, kSums * 8, fma_256},
    {"float32 vfmadd 512", Arithmetic::kFloat32, Isa::kAvx512, kSums * 16, fma_512},
    {"bfloat16 vdpbf16ps", Arithmetic::kBFloat16, Isa::kAvx512Bf16, kSums * 32, dot_bf16_512},
    {"int8 pmaddwd", Arithmetic::kInt8, Isa::kGeneric, kSums * 8, multiply_int16_128},
    {"int8 vpmaddubsw", Arithmetic::kInt8, Isa::kAvx2, kSums * 32, multiply_int8_256},
    {"int8 vpdpbusd", Arithmetic::kInt8, Isa::kAvx512Vnni, kSums * 64, dot_int8_512},
};

}  // namespace

std::span<const PeakLoop> peak_loops() {
  return kLoops;
}

const PeakLoop& peak_loop(Arithmetic arithmetic, Isa isa) {
  const PeakLoop* best = nullptr;
  for (const PeakLoop& loop : kLoops) {
    if (loop.arithmetic == arithmetic && loop.isa <= isa) best = &loop;  // sets widen in the table
  }
  if (best == nullptr) return peak_loop(Arithmetic::kFloat32, isa);
  return *best;
}

}  // namespace octavo::backends::cpu
