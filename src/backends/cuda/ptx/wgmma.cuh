// Hopper's warpgroup matrix product as inline PTX: 128 threads multiply together, asynchronously,
// with operand B in shared memory. Between wgmma_fence and wgmma_wait no thread may touch the
// registers of A or D: a compiler that cannot see to that serialises the products (its notes C7510
// to C7520), at half the speed. Only for sm_90a.
//
// Operands in shared memory lie in panels: rows of 128 bytes (64 bfloat16) whose 16-byte chunks are
// swizzled as tile/swizzle.h says, every panel aligned to 1024 bytes. TMA writes them so
// (CU_TENSOR_MAP_SWIZZLE_128B).
#pragma once

#include <cstdint>

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

// Orders this thread's writes to the registers of A and D before the next wgmma.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending committed groups are unfinished.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Makes this thread's ordinary writes to shared memory visible to wgmma and TMA; the reader waits
// at a barrier after it.
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The descriptor of a K-major operand without swizzle: core matrices of 8 rows by 16 bytes, each
// 128 contiguous bytes; `k_stride_bytes` from one to the next along K, `row_stride_bytes` along the
// rows. `shared_address` and both strides are multiples of 16.
__device__ inline uint64_t wgmma_descriptor(uint32_t shared_address, uint32_t k_stride_bytes,
                                            uint32_t row_stride_bytes) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>(bytes & 0x3FFFF) >> 4; };
  return field(shared_address) | field(k_stride_bytes) << 16 | field(row_stride_bytes) << 32;
}

// d = a · b. d: the thread's 4 values of [64, 8] float; a: its 4 pairs of [64, 16] bfloat16; b:
// [8, 16] bfloat16, K-major.
__device__ inline void wgmma_m64n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 0, 1, 1, 0;"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// The operand lists of the products below: registers 0 to 9, 10 to 19, ... as "%0, ... %9" and
// "+f"(d[0]), ....
#define OCTAVO_TEN(t)                                                                              \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t \
  "9"
#define OCTAVO_TWO(t) "%" #t "0, %" #t "1"
#define OCTAVO_FOUR(t) OCTAVO_TWO(t) ", %" #t "2, %" #t "3"
#define OCTAVO_EIGHT(t) OCTAVO_FOUR(t) ", %" #t "4, %" #t "5, %" #t "6, %" #t "7"
#define OCTAVO_TWO_D(t) "+f"(d[t##0]), "+f"(d[t##1])
#define OCTAVO_FOUR_D(t) OCTAVO_TWO_D(t), "+f"(d[t##2]), "+f"(d[t##3])
#define OCTAVO_EIGHT_D(t) \
  OCTAVO_FOUR_D(t), "+f"(d[t##4]), "+f"(d[t##5]), "+f"(d[t##6]), "+f"(d[t##7])
#define OCTAVO_TEN_D(t) OCTAVO_EIGHT_D(t), "+f"(d[t##8]), "+f"(d[t##9])

#define OCTAVO_REGISTERS_16 OCTAVO_TEN() ", " OCTAVO_FOUR(1) ", %14, %15"
#define OCTAVO_REGISTERS_24 OCTAVO_TEN() ", " OCTAVO_TEN(1) ", " OCTAVO_FOUR(2)
#define OCTAVO_REGISTERS_32 OCTAVO_TEN() ", " OCTAVO_TEN(1) ", " OCTAVO_TEN(2) ", " OCTAVO_TWO(3)
#define OCTAVO_REGISTERS_40 OCTAVO_TEN() ", " OCTAVO_TEN(1) ", " OCTAVO_TEN(2) ", " OCTAVO_TEN(3)
#define OCTAVO_REGISTERS_60 OCTAVO_REGISTERS_40 ", " OCTAVO_TEN(4) ", " OCTAVO_TEN(5)
#define OCTAVO_REGISTERS_64 OCTAVO_REGISTERS_60 ", " OCTAVO_FOUR(6)
#define OCTAVO_REGISTERS_80 OCTAVO_REGISTERS_60 ", " OCTAVO_TEN(6) ", " OCTAVO_TEN(7)
#define OCTAVO_REGISTERS_88 OCTAVO_REGISTERS_80 ", " OCTAVO_EIGHT(8)
#define OCTAVO_REGISTERS_128                                                                     \
  OCTAVO_REGISTERS_80 ", " OCTAVO_TEN(8) ", " OCTAVO_TEN(9) ", " OCTAVO_TEN(10) ", " OCTAVO_TEN( \
      11) ", " OCTAVO_EIGHT(12)
#define OCTAVO_ACCUMULATORS_16 OCTAVO_TEN_D(), OCTAVO_FOUR_D(1), "+f"(d[14]), "+f"(d[15])
#define OCTAVO_ACCUMULATORS_24 OCTAVO_TEN_D(), OCTAVO_TEN_D(1), OCTAVO_FOUR_D(2)
#define OCTAVO_ACCUMULATORS_32 OCTAVO_TEN_D(), OCTAVO_TEN_D(1), OCTAVO_TEN_D(2), OCTAVO_TWO_D(3)
#define OCTAVO_ACCUMULATORS_40 OCTAVO_TEN_D(), OCTAVO_TEN_D(1), OCTAVO_TEN_D(2), OCTAVO_TEN_D(3)
#define OCTAVO_ACCUMULATORS_60 OCTAVO_ACCUMULATORS_40, OCTAVO_TEN_D(4), OCTAVO_TEN_D(5)
#define OCTAVO_ACCUMULATORS_64 OCTAVO_ACCUMULATORS_60, OCTAVO_FOUR_D(6)
#define OCTAVO_ACCUMULATORS_80 OCTAVO_ACCUMULATORS_60, OCTAVO_TEN_D(6), OCTAVO_TEN_D(7)
#define OCTAVO_ACCUMULATORS_88 OCTAVO_ACCUMULATORS_80, OCTAVO_EIGHT_D(8)
#define OCTAVO_ACCUMULATORS_128                                                                 \
  OCTAVO_ACCUMULATORS_80, OCTAVO_TEN_D(8), OCTAVO_TEN_D(9), OCTAVO_TEN_D(10), OCTAVO_TEN_D(11), \
      OCTAVO_EIGHT_D(12)

// wgmma_qk: d = a · bᵀ (+ d where `accumulate`), both operands K-major in shared memory.
// wgmma_pv: the same with a, [64, 16], in registers and b MN-major, so that d = a · b for a b that
// is stored with K along its rows.
// d: the thread's kN / 2 values of [64, kN] float; a: its 4 pairs of 16-bit values; kN is chosen by
// d. wgmma_qk_bf16 and so on: of bfloat16; wgmma_qk_f16: of half precision.
#define OCTAVO_WGMMA(type, n, regs, r0, r1, r2, r3, r4, r5)                                        \
  __device__ inline void wgmma_qk_##type(float(&d)[regs], uint64_t a, uint64_t b,                  \
                                         bool accumulate) {                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r2                                          \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type                 \
                 " {" OCTAVO_REGISTERS_##regs "}, %" #r0 ", %" #r1 ", p, 1, 1, 0, 0;\n}\n"         \
                 : OCTAVO_ACCUMULATORS_##regs                                                      \
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                             \
  }                                                                                                \
  __device__ inline void wgmma_pv_##type(float(&d)[regs], const uint32_t* a, uint64_t b,           \
                                         bool accumulate) {                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r5                                          \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type                 \
                 " {" OCTAVO_REGISTERS_##regs "}, {%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 \
                                              ", p, 1, 1, 1;\n}\n"                                 \
                 : OCTAVO_ACCUMULATORS_##regs                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                             \
                   "r"(static_cast<int>(accumulate)));                                             \
  }
OCTAVO_WGMMA(bf16, 32, 16, 16, 17, 18, 19, 20, 21)
OCTAVO_WGMMA(bf16, 48, 24, 24, 25, 26, 27, 28, 29)
OCTAVO_WGMMA(bf16, 64, 32, 32, 33, 34, 35, 36, 37)
OCTAVO_WGMMA(bf16, 80, 40, 40, 41, 42, 43, 44, 45)
OCTAVO_WGMMA(bf16, 128, 64, 64, 65, 66, 67, 68, 69)
OCTAVO_WGMMA(bf16, 176, 88, 88, 89, 90, 91, 92, 93)
OCTAVO_WGMMA(bf16, 256, 128, 128, 129, 130, 131, 132, 133)
OCTAVO_WGMMA(f16, 64, 32, 32, 33, 34, 35, 36, 37)
OCTAVO_WGMMA(f16, 128, 64, 64, 65, 66, 67, 68, 69)
OCTAVO_WGMMA(f16, 256, 128, 128, 129, 130, 131, 132, 133)
#undef OCTAVO_WGMMA

}  // namespace octavo::backends::cuda
