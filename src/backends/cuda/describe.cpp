#include "backends/cuda/describe.h"

#include <cuda_runtime_api.h>

#include <fstream>

#include "backends/attention_choice.h"
#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device_cuda.h"
#include "backends/cuda/sm90/wgmma_probe.h"
#include "backends/cuda_compat.h"
#include "base/format.h"

namespace octavo::backends {
namespace {

// "580.159.04", or "" where the kernel module is not there.
std::string driver_release() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string release;
  std::getline(file, release);
  return release;
}

std::string describe_driver(int driver_version, cudaError_t count_error, int num_devices) {
  if (driver_version == 0) return "no NVIDIA driver found";
  const std::string release = driver_release();
  std::string text = format("the NVIDIA driver {}{}supports CUDA {}", release,
                            release.empty() ? "" : " ", cuda_version_string(driver_version));
  if (const std::string problem = driver_problem(driver_version, CUDART_VERSION);
      !problem.empty()) {
    return text + "; " + problem;
  }
  if (count_error == cudaErrorNoDevice || (count_error == cudaSuccess && num_devices == 0)) {
    return text + "; no GPU found";
  }
  if (count_error != cudaSuccess) return text + "; " + cudaGetErrorString(count_error);
  return text;
}

std::string describe_cublaslt() {
  const Result<cuda::Cublaslt>& lt = cuda::cublaslt();
  if (!lt.ok()) return lt.status().message();
  std::string text = format("cuBLASLt {} ({})", cublaslt_version_string(lt->version), lt->path);
  for (const std::string& issue : cublaslt_issues(lt->version)) text += "; " + issue;
  return text;
}

std::string describe_attention(int compute_capability) {
  const auto choice = choose_attention("auto", {"cuda", compute_capability, 0});
  return choice.ok() ? "attention " + describe(*choice) : choice.status().message();
}

// Nothing where the memory cannot be asked for.
std::string describe_memory(int device) {
  int before = 0;
  size_t free_bytes = 0, total_bytes = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return "";
  const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  cudaSetDevice(before);
  if (error != cudaSuccess) return "";
  return format(", {:.1f} GiB of it free", static_cast<double>(free_bytes) / (1 << 30));
}

std::string describe_device(int device) {
  const Result<cuda::DeviceProperties> found = cuda::device_properties(device);
  if (!found.ok()) return found.status().message();
  const int sm = found->compute_capability;
  std::string text = format(
      "cuda:{}: {}, sm_{}, {} SMs, {:.1f} GiB{}", device, found->name, sm, found->multiprocessors,
      static_cast<double>(found->memory_bytes) / (1 << 30), describe_memory(device));
  if (sm == 90) {
    const Status probe = cuda::probe_wgmma(device);
    text +=
        probe.ok() ? ", wgmma self-check passed" : ", wgmma self-check failed: " + probe.message();
  }
  text += sm == 90 ? "; FP8 and int4 weights stay so"
                   : "; FP8 and int4 weights become bfloat16 (they stay on sm_90)";
  return text + "; " + describe_attention(sm);
}

}  // namespace

std::vector<std::string> describe_cuda() {
  int driver_version = 0;  // stays 0 where there is no driver
  cudaDriverGetVersion(&driver_version);
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess) num_devices = 0;

  std::vector<std::string> sentences = {format("built with the CUDA runtime {}, linked statically",
                                               cuda_version_string(CUDART_VERSION)),
                                        describe_driver(driver_version, error, num_devices),
                                        describe_cublaslt()};
  for (int device = 0; device < num_devices; ++device) {
    sentences.push_back(describe_device(device));
  }
  return sentences;
}

}  // namespace octavo::backends
