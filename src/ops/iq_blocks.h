// The IQ and TQ types of GGUF: blocks of 256 values of about 1 to 4 bits. The IQ types look up
// groups of four or eight values in a grid (iq_grids.h), by an index that may have upper bits
// elsewhere. Bytes only, so that a block needs no alignment beyond that of `d` (an IEEE half).
#pragma once

#include <stdint.h>

namespace octavo::ops {

// 32 values: d * (scale - 32) * level; scale s has its low nibble in scales_low and two bits of
// scales_high.
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_high;
  uint8_t scales_low[4];
  uint8_t qs[128];
};

// A bit of qh is the ninth bit of an index; a nibble of `scales` serves 32 values.
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};

// 32 values share a 32-bit word of `signs`: four times seven sign bits and the scale.
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];
  uint8_t signs[32];
};

// Two bits of qh go on top of an index; a nibble of `scales` serves 16 values.
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};

// 16-bit words: nine bits of index, seven of signs; a nibble of `scales` serves 16 values.
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};

// 32 values have four bytes of indexes and a 32-bit word of signs and scale as in IQ3_XXS.
struct BlockIQ2_XXS {
  uint16_t d;
  uint8_t qs[64];
};

// A nibble of qh has the upper bits of an index and the sign of the offset. Three bits of `scales`
// serve 16 values; the upper nibbles of its four words make up the scale of the block.
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};

// A word of qh has the upper bits of four indexes, a scale and the sign of the offset.
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};

// d * (two bits - 1)
struct BlockTQ2_0 {
  uint8_t qs[64];
  uint16_t d;
};

// d * (digit - 1): a byte is a fraction of 256 whose first five (qh: four) ternary digits are
// values.
struct BlockTQ1_0 {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};

static_assert(sizeof(BlockIQ4_XS) == 136 && sizeof(BlockIQ3_S) == 110 &&
              sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ2_S) == 82 && sizeof(BlockIQ2_XS) == 74 &&
              sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ1_M) == 56 && sizeof(BlockIQ1_S) == 50 &&
              sizeof(BlockTQ2_0) == 66 && sizeof(BlockTQ1_0) == 54);

}  // namespace octavo::ops
