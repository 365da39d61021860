// A CUDA call or launch that failed. The state of the device is unknown afterwards: the error is
// thrown once, caught where requests are failed, and nothing more is tried on that device.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "octavo/status.h"

namespace octavo::backends::cuda {

class DeviceError : public std::runtime_error {
 public:
  // `call` is the name of what failed, e.g. "cudaMalloc" or "attention_decode".
  DeviceError(const char* call, cudaError_t error)
      : std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error)), error_(error) {}

  cudaError_t error() const { return error_; }

 private:
  cudaError_t error_;
};

inline void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw DeviceError(call, error);
}

// What an op cannot do: ops return nothing, so that their errors travel as a DeviceError does, to
// Device::run.
class OpError : public std::runtime_error {
 public:
  explicit OpError(Status status)
      : std::runtime_error(status.message()), status_(std::move(status)) {}

  const Status& status() const { return status_; }

 private:
  Status status_;
};

inline void check_op(const Status& status) {
  if (!status.ok()) throw OpError(status);
}

}  // namespace octavo::backends::cuda
