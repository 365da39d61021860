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
  // Blocks of a cluster, by which those of the grid divide; more than 1 from sm_90 on.
  unsigned cluster = 1;
};

// A LaunchShape as the runtime takes it.
struct LaunchConfig {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attributes[2] = {};

  LaunchConfig(const LaunchShape& shape, cudaStream_t stream) {
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (shape.overlap_previous) {
      cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
      overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      overlap.val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cluster > 1) {
      cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {shape.cluster, 1, 1};
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;  // it points into itself
  LaunchConfig& operator=(const LaunchConfig&) = delete;
};

template <class... Parameters, class... Arguments>
cudaError_t try_launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                       Arguments&&... arguments) {
  const LaunchConfig launch(shape, stream);
  return cudaLaunchKernelEx(&launch.config, kernel, std::forward<Arguments>(arguments)...);
}

// `name` is what a DeviceError calls the kernel.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape,
            cudaStream_t stream, Arguments&&... arguments) {
  check_cuda(try_launch(kernel, shape, stream, std::forward<Arguments>(arguments)...), name);
}

// How many clusters of the shape the GPU holds at a time.
template <class... Parameters>
int most_active_clusters(void (*kernel)(Parameters...), const LaunchShape& shape) {
  const LaunchConfig launch(shape, nullptr);
  int clusters = 0;
  check_cuda(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config),
             "cudaOccupancyMaxActiveClusters");
  return clusters;
}

}  // namespace octavo::backends::cuda
