// The block types of GGUF whose blocks are less than 256 values. Most are 32 that share a scale `d`
// and, for the _1 types, a minimum `m` (both IEEE half): the low nibble of qs[j] belongs to value
// j, the high one to value j + 16; qh holds the fifth bits, bit j of the little-endian 32-bit word
// to value j. Plain structs only: also included by files compiled for wider instruction sets.
#pragma once

#include <stdint.h>

namespace octavo::ops {

inline constexpr int kBlockValues = 32;

// value = d * (code - 8)
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};

// value = d * code + m
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};

// value = d * (code - 16)
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};

// value = d * code + m
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};

// value = d * code
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};

// value = d * level of the code
constexpr int8_t kIQ4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];
};

// value = 2^(e - 128) * level of the code: the E2M1 numbers of the OCP microscaling formats,
// doubled; where e is 255, all are NaN
constexpr int8_t kMXFP4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
struct BlockMXFP4 {
  uint8_t e;
  uint8_t qs[16];
};

// Four times 16 values with a scale in E4M3 without a sign: half of it times the level of the code,
// as in MXFP4. Eight bytes of qs belong to a scale, their low nibbles to its first eight values.
struct BlockNVFP4 {
  static constexpr int kValues = 64;
  uint8_t d[4];
  uint8_t qs[32];
};

// d where the bit of the value is set, else -d; from the lowest bit of qs[0] on.
struct BlockQ1_0 {
  static constexpr int kValues = 128;
  uint16_t d;
  uint8_t qs[16];
};

// value = d * (code - 1), codes of two bits from the lowest of qs[0] on
struct BlockQ2_0 {
  static constexpr int kValues = 64;
  uint16_t d;
  uint8_t qs[16];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 &&
              sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIQ4_NL) == 18 &&
              sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36 && sizeof(BlockQ1_0) == 18 &&
              sizeof(BlockQ2_0) == 18);

}  // namespace octavo::ops
