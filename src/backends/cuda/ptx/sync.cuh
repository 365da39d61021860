// Orders of memory that CUDA C++ has only in a heavier form, as inline PTX.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

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
