#include "backends/cuda/driver_function.h"

#include <cuda_runtime_api.h>

namespace octavo::backends::cuda {

void* driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult query = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &query);
  if (error == cudaSuccess && query == cudaDriverEntryPointSuccess) return found;
  cudaGetLastError();
  return nullptr;
}

}  // namespace octavo::backends::cuda
