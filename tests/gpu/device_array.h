// Device memory of a test: allocated, filled and read back in one line each. A failing CUDA call
// throws DeviceError, which fails the test.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

inline bool has_hopper() {
  int major = 0;
  return has_gpu() &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
         major == 9;
}

template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t size) : size_(size) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, size * sizeof(T) + 1), "cudaMalloc");
    memory_.reset(static_cast<T*>(memory), [](T* p) { cudaFree(p); });
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    upload(values);
  }

  T* data() const { return memory_.get(); }
  size_t size() const { return size_; }

  void upload(const std::vector<T>& values) { upload(values.data(), values.size()); }

  // Both writes end here: CUDA may return before the memory is written, and streams of kernels do
  // not wait for the default one.
  void upload(const void* values, size_t count) {
    check_cuda(cudaMemcpy(data(), values, count * sizeof(T), cudaMemcpyDefault),
               "cudaMemcpy to the device");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  std::vector<T> download() const {
    std::vector<T> values(size_);
    check_cuda(cudaMemcpy(values.data(), data(), size_ * sizeof(T), cudaMemcpyDefault),
               "cudaMemcpy to the host");
    return values;
  }

  // Every byte becomes `byte`: 0xFF is a NaN in every floating point format.
  void fill_bytes(int byte) {
    check_cuda(cudaMemset(data(), byte, size_ * sizeof(T)), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

 private:
  std::shared_ptr<T> memory_;
  size_t size_ = 0;
};

}  // namespace octavo::backends::cuda
