// Launches a kernel; under nvcc only. The one place that knows how a launch asks to overlap the
// kernel before it.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  // Programmatic dependent launch: may start while the kernel before it in the stream still runs
  // (ptx/pdl.cuh). GPUs before sm_90 take no notice.
  bool overlap_previous = false;
};

template <class... Parameters, class... Arguments>
cudaError_t try_launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                       Arguments&&... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = shape.overlap_previous ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

// `name` is what a DeviceError calls the kernel.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape,
            cudaStream_t stream, Arguments&&... arguments) {
  check_cuda(try_launch(kernel, shape, stream, std::forward<Arguments>(arguments)...), name);
}

}  // namespace octavo::backends::cuda
