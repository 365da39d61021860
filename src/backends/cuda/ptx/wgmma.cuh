// Hopper's warpgroup matrix product as inline PTX: 128 threads multiply together, asynchronously,
// with operand B in shared memory. Between wgmma_fence and wgmma_wait no thread may touch the
// registers of A or D. Only for sm_90a.
#pragma once

#include <cstdint>

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

}  // namespace octavo::backends::cuda
