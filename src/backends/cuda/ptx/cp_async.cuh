// Copies of 16 bytes from global to shared memory that a thread starts and does not wait for
// (sm_80), as inline PTX.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline void cp_async_16(uint32_t shared_to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_to), "l"(from) : "memory");
}

// The same, or zeros where `valid` is false; `from` must then still be an address.
__device__ inline void cp_async_16_or_zeros(uint32_t shared_to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

// What this thread has started is waited for: its own copies, not those of others.
__device__ inline void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Arrives at a barrier (counted at its initialisation) when this thread's copies so far are done.
__device__ inline void cp_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace octavo::backends::cuda
