// The K types of GGUF: blocks of 256 values, which have scales of their own for every 16 or 32
// values, themselves quantised and multiplied with the block's `d` (an IEEE half). Plain data only:
// also included by files compiled for wider instruction sets.
#pragma once

#include <stdint.h>

namespace octavo::ops {

inline constexpr int kKBlockValues = 256;
inline constexpr int kKSubBlocks = 8;  // of 32 values

// 16 values: d * scale * code - dmin * minimum; the low nibble of a byte of `scales` is the scale,
// the high one the minimum.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t low[64];
  uint16_t d;
  uint16_t dmin;
};

// 16 values: d * (scale - 32) * (code - 4). The six bits of scale k: four in byte k % 8 of `scales`
// (from bit 4 * (k / 8)), the upper two in byte 8 + k % 4 (from bit 2 * (k / 4)).
struct BlockQ3_K {
  uint8_t high[32];
  uint8_t low[64];
  uint8_t scales[12];
  uint16_t d;
};

// 32 values: d * scale * code - dmin * minimum. Six bits each: scales 0..3 lie in bytes 0..3 of
// `scales`, minima 0..3 in bytes 4..7, the low nibbles of scales 4..7 in the low nibbles of bytes
// 8..11 and those of minima 4..7 in the high ones; their upper two bits are the top of bytes 0..3
// and 4..7.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t low[128];
};
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t low[128];
};

// 16 values: d * scale * (code - 32)
struct BlockQ6_K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};

static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

// Any block of 256 values, unpacked: value i = codes[i] * d[i / 16] + m[i / 16].
struct KValues {
  int8_t codes[kKBlockValues];
  float d[kKBlockValues / 16];
  float m[kKBlockValues / 16];
};

// Where the codes lie: value i of sub-block s has its low bits in byte low[low_at[s] + i] from bit
// low_shift[s] on, its high bits in high[high_at[s] + i] from bit high_shift[s] on.
struct KLayout {
  int low_bits;
  int high_bits;
  int zero;  // the code that means zero
  uint8_t low_at[kKSubBlocks];
  uint8_t low_shift[kKSubBlocks];
  uint8_t high_at[kKSubBlocks];
  uint8_t high_shift[kKSubBlocks];
};
constexpr KLayout kQ2KLayout = {2,  0, 0, {0, 0, 0, 0, 32, 32, 32, 32}, {0, 2, 4, 6, 0, 2, 4, 6},
                                {}, {}};
constexpr KLayout kQ3KLayout = {
    2, 1, 4, {0, 0, 0, 0, 32, 32, 32, 32}, {0, 2, 4, 6, 0, 2, 4, 6}, {}, {0, 1, 2, 3, 4, 5, 6, 7}};
constexpr KLayout kQ4KLayout = {4,  0, 0, {0, 0, 32, 32, 64, 64, 96, 96}, {0, 4, 0, 4, 0, 4, 0, 4},
                                {}, {}};
constexpr KLayout kQ5KLayout = {4,
                                1,
                                0,
                                {0, 0, 32, 32, 64, 64, 96, 96},
                                {0, 4, 0, 4, 0, 4, 0, 4},
                                {},
                                {0, 1, 2, 3, 4, 5, 6, 7}};
constexpr KLayout kQ6KLayout = {4,
                                2,
                                32,
                                {0, 32, 0, 32, 64, 96, 64, 96},
                                {0, 0, 4, 4, 0, 0, 4, 4},
                                {0, 0, 0, 0, 32, 32, 32, 32},
                                {0, 2, 4, 6, 0, 2, 4, 6}};

}  // namespace octavo::ops
