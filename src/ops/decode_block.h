// One block of each type to floats, and what the K types are made of. Internal to ops and the plain
// kernels; decode_row.h has the table of whole rows.
#pragma once

#include "ops/blocks.h"
#include "ops/iq_blocks.h"
#include "ops/k_blocks.h"

namespace octavo::ops {

// Added to a product it changes nothing, not even the sign of a zero: the minimum of types that
// have none.
inline constexpr float kNoMin = -0.0f;

// A block of a K type: value i = codes[i] * d[i / 16] + m[i / 16].
struct KValues {
  int8_t codes[kKBlockValues];
  float d[kKBlockValues / 16];
  float m[kKBlockValues / 16];
};
void unpack_block(KValues& out, const BlockQ2_K& b);
void unpack_block(KValues& out, const BlockQ3_K& b);
void unpack_block(KValues& out, const BlockQ4_K& b);
void unpack_block(KValues& out, const BlockQ5_K& b);
void unpack_block(KValues& out, const BlockQ6_K& b);

// The scale of 32 values of a block, to be multiplied with its d.
int iq4_xs_scale(const BlockIQ4_XS& b, int sub_block);

void decode_block(const BlockIQ4_XS& b, float* dst);
void decode_block(const BlockIQ3_S& b, float* dst);
void decode_block(const BlockIQ3_XXS& b, float* dst);
void decode_block(const BlockIQ2_S& b, float* dst);
void decode_block(const BlockIQ2_XS& b, float* dst);
void decode_block(const BlockIQ2_XXS& b, float* dst);
void decode_block(const BlockIQ1_M& b, float* dst);
void decode_block(const BlockIQ1_S& b, float* dst);
void decode_block(const BlockTQ2_0& b, float* dst);
void decode_block(const BlockTQ1_0& b, float* dst);

}  // namespace octavo::ops
