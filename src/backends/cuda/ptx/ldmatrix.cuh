// Four 8 by 8 matrices of 16-bit values from shared memory into a warp's registers (sm_75). Lane l
// gives the address of row l % 8 of matrix l / 8; register i holds matrix i: of lane l, with
// g = l / 4 and q = l % 4, elements 2q and 2q + 1 of row g; transposed, of column g.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline void ldmatrix_x4(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

__device__ inline void ldmatrix_x4_transposed(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

}  // namespace octavo::backends::cuda
