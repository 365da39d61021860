// Blocks of quantised rows to byte codes: kLanes rows at a time, four values of a row to a 32-bit
// lane. Included by the kernels for quantised weights, like simd.h once per instruction set.
#include <stddef.h>

#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"
#include "ops/blocks.h"
#include "ops/iq_blocks.h"
#include "ops/k_blocks.h"

namespace octavo::backends::cpu {
namespace {

constexpr int kGroups = ops::kBlockValues / 4;

// What the codes of a type are once they are unpacked: value = d * (code - zero) + m, for each part
// of 32 values that has a scale of its own.
struct CodeFormat {
  int bits;
  int zero = 0;
  bool has_min = false;
  int parts = 1;
  int sub_blocks = 1;  // of 32 values, in a block of the file
};
template <typename Block>
constexpr CodeFormat kFormat = {};
template <>
constexpr CodeFormat kFormat<ops::BlockQ4_0> = {.bits = 4, .zero = 8};
template <>
constexpr CodeFormat kFormat<ops::BlockQ4_1> = {.bits = 4, .has_min = true};
template <>
constexpr CodeFormat kFormat<ops::BlockQ5_0> = {.bits = 5, .zero = 16};
template <>
constexpr CodeFormat kFormat<ops::BlockQ5_1> = {.bits = 5, .has_min = true};
template <>
constexpr CodeFormat kFormat<ops::BlockQ8_0> = {.bits = 8, .zero = 128};
template <>
constexpr CodeFormat kFormat<ops::BlockQ2_K> = {
    .bits = 2, .has_min = true, .parts = 2, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockQ3_K> = {
    .bits = 3, .zero = 4, .parts = 2, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockQ4_K> = {
    .bits = 4, .has_min = true, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockQ5_K> = {
    .bits = 5, .has_min = true, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockQ6_K> = {
    .bits = 6, .zero = 32, .parts = 2, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockIQ4_NL> = {.bits = 8, .zero = 128};
template <>
constexpr CodeFormat kFormat<ops::BlockIQ4_XS> = {
    .bits = 8, .zero = 128, .sub_blocks = ops::kKSubBlocks};
template <>
constexpr CodeFormat kFormat<ops::BlockMXFP4> = {.bits = 8, .zero = 128};
template <>
constexpr CodeFormat kFormat<ops::KValues> = {
    .bits = 8, .zero = 128, .parts = 2, .sub_blocks = ops::kKSubBlocks};

template <typename Block>
constexpr int kParts = kFormat<Block>.parts;
template <typename Block>
constexpr int kSubBlocks = kFormat<Block>.sub_blocks;

// 32 values of kLanes rows.
template <int kNumParts>
struct LaneBlock {
  IntVec codes[kGroups];
  Vec d[kNumParts];
  Vec m[kNumParts];  // zero for types that have no minimum
};

// Where a block of the file of kLanes rows is read from: rows that lie apart. int8_unpack.inl has
// another, for rows that were packed. words() gives the four 32-bit words at byte `at` of the
// block.
struct RowSource {
  static constexpr bool kInLanes = false;

  const void* const* rows;
  int64_t offset;

  OCTAVO_INLINE void words(IntVec (&out)[4], int64_t at) const {
    load_transposed(out, rows, offset + at);
  }
};

// A block of the file of kLanes rows is a LaneFile<Block, Source>: after load(), block(s) gives its
// s-th 32 values.

OCTAVO_INLINE IntVec nibbles(IntVec v) {
  return and_int(v, set1_int(0x0F0F0F0F));
}

// Signed bytes to codes with 128 for zero.
OCTAVO_INLINE IntVec biased(IntVec v) {
  return xor_int(v, set1_int(static_cast<int32_t>(0x80808080)));
}

// 16 bytes of nibbles to codes: the low ones are values 0..15, the high ones 16..31.
template <typename Source>
OCTAVO_INLINE void unpack_nibbles(IntVec (&codes)[kGroups], const Source& source, int64_t at) {
  IntVec words[4];
  source.words(words, at);
  for (int g = 0; g < 4; ++g) {
    codes[g] = nibbles(words[g]);
    codes[g + 4] = nibbles(shift_right<4>(words[g]));
  }
}

// Bits 4 * group + i of every lane, as 16 in byte i: byte group / 2 is copied to all bytes and each
// tested for its own bit.
OCTAVO_INLINE IntVec fifth_bits(IntVec high, int group) {
#if defined(__AVX2__)
  const auto bits = static_cast<int32_t>(group % 2 == 0 ? 0x08040201u : 0x80402010u);
  const __m128i lane_start = _mm_set_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0);
  const __m128i from = _mm_add_epi8(lane_start, _mm_set1_epi8(static_cast<char>(group / 2)));
#endif
#if defined(__AVX512BW__)
  const IntVec spread = _mm512_shuffle_epi8(high, _mm512_broadcast_i32x4(from));
  return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(spread, set1_int(bits)), 16);
#elif defined(__AVX2__)
  const IntVec spread = _mm256_shuffle_epi8(high, _mm256_broadcastsi128_si256(from));
  const IntVec set = _mm256_cmpeq_epi8(and_int(spread, set1_int(bits)), set1_int(bits));
  return and_int(set, set1_int(0x10101010));
#else
  const IntVec four = (high >> 4 * group) & 15;
  return ((four * 0x00204081) & 0x01010101) << 4;
#endif
}

// All that types of 32 values need to know of a block.
template <typename Source>
struct LanePlace {
  Source source;

  OCTAVO_INLINE void load(const Source& from) { source = from; }
};

// Q4_0 to Q5_1: the scale is the first half of the first word, a minimum the second.
template <typename Block, typename Source>
struct LaneFile : LanePlace<Source> {
  OCTAVO_INLINE LaneBlock<1> block(int) const {
    LaneBlock<1> out;
    IntVec head[4];
    this->source.words(head, 0);
    out.d[0] = half_to_float(head[0]);
    out.m[0] = kFormat<Block>.has_min ? half_to_float(shift_right<16>(head[0])) : set1(0);
    unpack_nibbles(out.codes, this->source, static_cast<int64_t>(offsetof(Block, qs)));
    if constexpr (kFormat<Block>.bits == 5) {
      IntVec high[4];
      this->source.words(high, static_cast<int64_t>(offsetof(Block, qh)));
      for (int g = 0; g < kGroups; ++g) {
        out.codes[g] = add_int(out.codes[g], fifth_bits(high[0], g));
      }
    }
    return out;
  }
};

template <typename Source>
struct LaneFile<ops::BlockQ8_0, Source> : LanePlace<Source> {
  OCTAVO_INLINE LaneBlock<1> block(int) const {
    LaneBlock<1> out;
    IntVec words[4];
    this->source.words(words, 0);
    out.d[0] = half_to_float(words[0]);
    out.m[0] = set1(0);
    for (int half = 0; half < 2; ++half) {
      this->source.words(words, 2 + 16 * half);
      for (int g = 0; g < 4; ++g) out.codes[4 * half + g] = biased(words[g]);
    }
    return out;
  }
};

template <typename Source>
struct LaneFile<ops::BlockIQ4_NL, Source> : LanePlace<Source> {
  OCTAVO_INLINE LaneBlock<1> block(int) const {
    LaneBlock<1> out;
    IntVec head[4];
    this->source.words(head, 0);
    out.d[0] = half_to_float(head[0]);
    out.m[0] = set1(0);
    unpack_nibbles(out.codes, this->source, 2);
    for (IntVec& codes : out.codes) codes = biased(look_up(ops::kIQ4Levels, codes));
    return out;
  }
};

template <typename Source>
struct LaneFile<ops::BlockMXFP4, Source> : LanePlace<Source> {
  OCTAVO_INLINE LaneBlock<1> block(int) const {
    LaneBlock<1> out;
    IntVec head[4];
    this->source.words(head, 0);
    // 2^(e - 128), the half of a float with the exponent e; e = 0 is a subnormal, and 255, which is
    // infinity there, is NaN here.
    const Vec power = from_bits(shift_left<23>(and_int(head[0], set1_int(255))));
    out.d[0] = fma(power, set1(0), max(power, set1(0x1p-127f)) * set1(0.5f));
    out.m[0] = set1(0);
    unpack_nibbles(out.codes, this->source, 1);
    for (IntVec& codes : out.codes) codes = biased(look_up(ops::kMXFP4Levels, codes));
    return out;
  }
};

}  // namespace
}  // namespace octavo::backends::cpu
