// The types of GGUF whose blocks are 256 values, in one form: signed codes with a scale for every
// 16 values. Plain C++; kernels that have no code for a type of their own compute with this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/iq_blocks.h"
#include "ops/k_blocks.h"
#include "tensor/dtype.h"

namespace octavo::ops {

// Added to a product it changes nothing, not even the sign of a zero: the minimum of types that
// have none.
inline constexpr float kNoMin = -0.0f;

void unpack_block(KValues& out, const BlockQ2_K& b);
void unpack_block(KValues& out, const BlockQ3_K& b);
void unpack_block(KValues& out, const BlockQ4_K& b);
void unpack_block(KValues& out, const BlockQ5_K& b);
void unpack_block(KValues& out, const BlockQ6_K& b);
void unpack_block(KValues& out, const BlockIQ4_XS& b);
void unpack_block(KValues& out, const BlockIQ3_S& b);
void unpack_block(KValues& out, const BlockIQ3_XXS& b);
void unpack_block(KValues& out, const BlockIQ2_S& b);
void unpack_block(KValues& out, const BlockIQ2_XS& b);
void unpack_block(KValues& out, const BlockIQ2_XXS& b);
void unpack_block(KValues& out, const BlockIQ1_M& b);
void unpack_block(KValues& out, const BlockIQ1_S& b);
void unpack_block(KValues& out, const BlockTQ2_0& b);
void unpack_block(KValues& out, const BlockTQ1_0& b);

// dst[0, blocks) = the blocks that start at `src`.
using UnpackRowFn = void (*)(KValues* dst, const std::byte* src, int64_t blocks);

// nullptr for types with other blocks.
UnpackRowFn unpack_row_fn(DType dtype);

}  // namespace octavo::ops
