// Copies of 16 bytes from global to shared memory that a thread starts and does not wait for
// (sm_80), as inline PTX. Copies are counted in groups, in the order in which they were committed.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline void cp_async_16(uint32_t shared_to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_to), "l"(from) : "memory");
}

__device__ inline void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's groups are unfinished.
template <int kPending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace octavo::backends::cuda
