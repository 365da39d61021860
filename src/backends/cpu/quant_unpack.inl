// Blocks of quantised rows to byte codes: kLanes rows at a time, four values of a row to a 32-bit
// lane. Included by the kernels for quantised weights, like simd.h once per instruction set.
#include <stddef.h>

#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"
#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

constexpr int kGroups = ops::kBlockValues / 4;

template <typename Block>
constexpr bool kHasMin = requires(Block b) { b.m; };
template <typename Block>
constexpr bool kHasFifthBits = requires(Block b) { b.qh; };
template <typename Block>
constexpr bool kHasBytes = sizeof(Block::qs) == ops::kBlockValues;

// What codes mean zero, as they are unpacked below.
template <typename Block>
constexpr int kZero = kHasMin<Block>         ? 0
                      : kHasBytes<Block>     ? 128
                      : kHasFifthBits<Block> ? 16
                                             : 8;

// A block of kLanes rows: value = d * (code - kZero) + m.
struct LaneBlock {
  IntVec codes[kGroups];
  Vec d;
  Vec m;
};

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

// The block at `offset` of kLanes rows.
template <typename Block>
OCTAVO_INLINE LaneBlock unpack_lanes(const void* const* rows, int64_t offset) {
  LaneBlock out;
  // The scale is the first half of the first word, a minimum the second.
  IntVec head[4];
  load_transposed(head, rows, offset);
  out.d = half_to_float(head[0]);
  out.m = kHasMin<Block> ? half_to_float(shift_right<16>(head[0])) : set1(0);

  IntVec words[4];
  const int64_t codes = offset + static_cast<int64_t>(offsetof(Block, qs));
  load_transposed(words, rows, codes);
  if constexpr (kHasBytes<Block>) {
    constexpr auto kSignBits = static_cast<int32_t>(0x80808080);
    for (int g = 0; g < 4; ++g) out.codes[g] = xor_int(words[g], set1_int(kSignBits));
    load_transposed(words, rows, codes + 16);
    for (int g = 0; g < 4; ++g) out.codes[g + 4] = xor_int(words[g], set1_int(kSignBits));
  } else {
    IntVec high[4];
    if constexpr (kHasFifthBits<Block>) {
      load_transposed(high, rows, offset + static_cast<int64_t>(offsetof(Block, qh)));
    }
    // Low nibbles are values 0..15, high nibbles 16..31.
    for (int g = 0; g < kGroups; ++g) {
      const IntVec word = g < 4 ? words[g] : shift_right<4>(words[g - 4]);
      out.codes[g] = and_int(word, set1_int(0x0F0F0F0F));
      if constexpr (kHasFifthBits<Block>) {
        out.codes[g] = add_int(out.codes[g], fifth_bits(high[0], g));
      }
    }
  }
  return out;
}

}  // namespace
}  // namespace octavo::backends::cpu
