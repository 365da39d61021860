// What the warpgroups of a block need to work in different roles, as inline PTX: moving registers
// from one role to another, and barriers for some of the block's threads. Only for sm_90a.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// By all warps of a warpgroup, first thing in its role. Registers must have been given up before
// others take them: the block's sum stays within the register file.
template <int kRegisters>
__device__ inline void setmaxnreg_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void setmaxnreg_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Barrier `id` (1..15; 0 is __syncthreads) of `threads` threads, a multiple of 32: waits for all.
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts this warp as arrived without waiting.
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace octavo::backends::cuda
