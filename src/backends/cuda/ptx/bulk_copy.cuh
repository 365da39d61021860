// Copies of contiguous bytes from global to shared memory by the copy engine (sm_90), as inline
// PTX. Addresses and sizes are multiples of 16; the barrier counts the bytes that have arrived.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline void bulk_copy(uint32_t shared_to, const void* from, uint32_t bytes,
                                 uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Orders this thread's ordinary writes to shared memory before later copies into it.
__device__ inline void bulk_copy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace octavo::backends::cuda
