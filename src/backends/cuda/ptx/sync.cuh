// A barrier of some of a block's warps, and orders of memory that CUDA C++ has only in a heavier
// form, as inline PTX.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// Of kThreads threads, whole warps; barrier 1 (0 is __syncthreads).
template <int kThreads>
__device__ inline void named_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// atomicInc after which, to whoever sees it and acquires, all is visible that this thread wrote
// before, and what others of its block wrote before a barrier with it.
__device__ inline uint32_t atomic_inc_release(uint32_t* address, uint32_t last) {
  uint32_t old;
  asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(last)
               : "memory");
  return old;
}

__device__ inline void fence_acquire_release() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

}  // namespace octavo::backends::cuda
