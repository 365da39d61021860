// What the tests of the CUDA backend's ops share: matrices and weights in device memory whose
// padding is NaN, and a context that fails the test where an op does.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "backends/cuda/backend_cuda.h"
#include "backends/cuda/device_cuda.h"
#include "backends/ref/ref.h"
#include "tensor/float16.h"
#include "tests/gpu/device_array.h"
#include "tests/kernels/kernel_test_util.h"

namespace octavo::backends::cuda {

using octavo::testing::PaddedMat;

// `x` as a matrix of `dtype` holds it.
inline PaddedMat rounded(const PaddedMat& x, DType dtype) {
  PaddedMat result = x;
  if (dtype == DType::kF32) return result;
  for (int64_t i = 0; i < x.mat().rows; ++i) {
    for (int64_t j = 0; j < x.mat().cols; ++j) {
      result.at(i, j) = bf16_to_float(float_to_bf16(x.at(i, j)));
    }
  }
  return result;
}

// A PaddedMat in device memory, as float32 or bfloat16.
class DeviceMat {
 public:
  DeviceMat(const PaddedMat& from, DType dtype) : shape_(from), dtype_(dtype) {
    const ops::Mat& m = from.mat();
    const int64_t count = m.rows * m.stride;
    memory_ = DeviceArray<uint8_t>(static_cast<size_t>(dtype_bytes(dtype, count)));
    if (dtype == DType::kF32) {
      upload(m.data, count * 4);
    } else {
      std::vector<uint16_t> halves;
      for (int64_t i = 0; i < count; ++i) {
        halves.push_back(float_to_bf16(static_cast<const float*>(m.data)[i]));
      }
      upload(halves.data(), count * 2);
    }
  }

  ops::Mat mat() const {
    const ops::Mat& m = shape_.mat();
    return {memory_.data(), dtype_, m.rows, m.cols, m.stride};
  }
  operator ops::Mat() const { return mat(); }

  PaddedMat download() const {
    PaddedMat result = shape_;
    auto* values = static_cast<float*>(result.mat().data);
    const std::vector<uint8_t> bytes = memory_.download();
    const auto count = static_cast<size_t>(shape_.mat().rows * shape_.mat().stride);
    for (size_t i = 0; i < count; ++i) {
      if (dtype_ == DType::kF32) {
        std::memcpy(values + i, &bytes[4 * i], 4);
      } else {
        uint16_t half = 0;
        std::memcpy(&half, &bytes[2 * i], 2);
        values[i] = bf16_to_float(half);
      }
    }
    return result;
  }

 private:
  void upload(const void* from, int64_t bytes) { memory_.upload(from, static_cast<size_t>(bytes)); }

  PaddedMat shape_;
  DType dtype_;
  DeviceArray<uint8_t> memory_;
};

class OpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
    auto backend = open_cuda(Arithmetic::kAuto, Packing::kFast);
    if (!backend.ok()) GTEST_SKIP() << backend.status().message();
    backend_ = *backend;
    constexpr int64_t kWorkspace = 64 << 20;
    workspace_ = DeviceArray<uint8_t>(kWorkspace);
    workspace_.fill_bytes(0xFF);
    ctx_.workspace = reinterpret_cast<std::byte*>(workspace_.data());
    ctx_.workspace_bytes = kWorkspace;
    ctx_.device = backend_.device;
  }

  const ops::Ops& ops() const { return backend_.ops; }
  ops::ExecContext& ctx() { return ctx_; }

  // Runs ops and waits for them.
  void run(const std::function<void()>& work) {
    const Status status = backend_.device->run([&]() -> Status {
      work();
      backend_.device->synchronize();
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // A weight in host memory as the device would have it.
  ops::Weight packed(const ops::Weight& host) const {
    const Tensor tensor{"weight", host.dtype, {host.rows, host.cols}, host.data, host.owner};
    ops::PackContext context{*backend_.device, nullptr, nullptr};
    auto weight = ops().pack_weight(ops(), context, tensor, {});
    EXPECT_TRUE(weight.ok()) << weight.status().message();
    return *weight;
  }

  Backend backend_;

 private:
  DeviceArray<uint8_t> workspace_;
  ops::ExecContext ctx_;
};

}  // namespace octavo::backends::cuda
