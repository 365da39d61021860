#include "backends/cuda/describe.h"

#include <cuda_runtime_api.h>

#include "backends/cuda/sm90/wgmma_probe.h"
#include "base/format.h"

namespace octavo::backends {
namespace {

// 13000 is 13.0
std::string version_string(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string describe_driver(int driver_version, cudaError_t count_error, int num_devices) {
  if (driver_version == 0) return "no NVIDIA driver found";
  std::string text = format("the NVIDIA driver supports CUDA {}", version_string(driver_version));
  if (count_error == cudaErrorNoDevice || (count_error == cudaSuccess && num_devices == 0)) {
    return text + "; no GPU found";
  }
  if (count_error != cudaSuccess) return text + "; " + cudaGetErrorString(count_error);
  return text;
}

std::string describe_device(int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return format("cuda:{}: {}", device, cudaGetErrorString(error));
  std::string text = format("cuda:{}: {}, sm_{}{}, {} SMs, {:.1f} GiB", device, properties.name,
                            properties.major, properties.minor, properties.multiProcessorCount,
                            static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  if (properties.major == 9 && properties.minor == 0) {
    const Status probe = cuda::probe_wgmma(device);
    text +=
        probe.ok() ? ", wgmma self-check passed" : ", wgmma self-check failed: " + probe.message();
  }
  return text;
}

}  // namespace

std::vector<std::string> describe_cuda() {
  int driver_version = 0;  // stays 0 where there is no driver
  cudaDriverGetVersion(&driver_version);
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess) num_devices = 0;

  std::vector<std::string> sentences = {
      format("built with the CUDA runtime {}, linked statically", version_string(CUDART_VERSION)),
      describe_driver(driver_version, error, num_devices)};
  for (int device = 0; device < num_devices; ++device) {
    sentences.push_back(describe_device(device));
  }
  return sentences;
}

}  // namespace octavo::backends
