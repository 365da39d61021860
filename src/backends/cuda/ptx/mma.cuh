// The matrix product of one warp, d += a · b, with a [16, 16], b [16, 8] and d [16, 8] in registers
// (sm_80). Lane l holds, with g = l / 4 and q = l % 4:
//   a[0..3]: rows g, g + 8, g, g + 8; columns 2q, 2q + 1 for the first two, 8 further for the last
//   b[0..1]: column g; rows 2q, 2q + 1, then 8 further
//   d[0..3]: row g, columns 2q, 2q + 1; then row g + 8
// Of two 16-bit values in a register the lower index is in the low half.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Transposes an 8 by 8 matrix of 16-bit values: lane l holds columns 2q, 2q + 1 of row g, before
// and after. What a product left in d, packed to 16 bits, so becomes operand b of the next.
__device__ inline uint32_t transpose_8x8(uint32_t pair) {
  uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

}  // namespace octavo::backends::cuda
