// Barriers in shared memory that count arrivals (sm_80) and bytes of asynchronous copies (sm_90),
// as inline PTX. A barrier is 8 bytes, 8-byte aligned. A consumer waits for parity 0 first, then
// alternates; a producer that waits for "empty" starts with parity 1, which passes at once.
#pragma once

#include <cstdint>
#ifdef OCTAVO_BOUND_WAITS
#include <cstdio>
#endif

namespace octavo::backends::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// By one thread; then mbarrier_fence_init, then a CTA barrier, before anyone uses it.
__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ inline void mbarrier_fence_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and announces `bytes` that copies will bring; boxes that reach past a tensor's end count
// in full.
__device__ inline void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Whether the phase is over, without waiting.
__device__ inline bool mbarrier_test_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// One attempt, which may wait a while; may say false although the phase is over.
__device__ inline bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
#else
  return mbarrier_test_wait(barrier, parity);
#endif
}

// Waits for the phase of this parity. With OCTAVO_BOUND_WAITS (test builds) a wait that does not
// end traps after about a second, so that a mistake is a message and not a hung card.
__device__ inline void mbarrier_wait(uint32_t barrier, uint32_t parity) {
#ifdef OCTAVO_BOUND_WAITS
  for (int attempt = 0; attempt < (1 << 20); ++attempt) {
    if (mbarrier_try_wait(barrier, parity)) return;
  }
  printf("mbarrier %u, parity %u: no end after a second (block %d, thread %d)\n", barrier, parity,
         blockIdx.x, threadIdx.x);
  __trap();
#else
  while (!mbarrier_try_wait(barrier, parity)) {
  }
#endif
}

}  // namespace octavo::backends::cuda
