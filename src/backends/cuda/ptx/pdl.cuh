// Programmatic dependent launch (sm_90): a kernel may start while the one before it in the stream
// still runs. Both are no-ops where the launch did not ask for it, and on older GPUs.
#pragma once

namespace octavo::backends::cuda {

// Returns when the kernel before has ended and what it wrote can be seen.
__device__ inline void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start once all blocks of this one have said so, or ended.
__device__ inline void pdl_launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace octavo::backends::cuda
