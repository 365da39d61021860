// Whether the current device runs the kernels of sm90/.
#pragma once

#include <cuda_runtime_api.h>

namespace octavo::backends::cuda {

// False where there is no GPU. Not kept: threads of a process may use different GPUs, and the
// runtime answers from memory.
inline bool is_hopper() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
}

}  // namespace octavo::backends::cuda
