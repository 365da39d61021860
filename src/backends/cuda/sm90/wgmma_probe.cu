#include "backends/cuda/sm90/wgmma_probe.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/wgmma.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kM = 64, kN = 8, kK = 16;

// Small integers: every product and sum is exact, and no two rows or columns are alike in a way
// that would hide a wrong layout.
__host__ __device__ constexpr int a_value(int row, int k) {
  return (5 * row + 3 * k) % 13 - 6;
}
__host__ __device__ constexpr int b_value(int col, int k) {
  return (7 * col + 2 * k) % 11 - 5;
}

__device__ uint32_t a_pair(int row, int k) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(static_cast<float>(a_value(row, k)),
                                                    static_cast<float>(a_value(row, k + 1)));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// out: [kM, kN]. One warpgroup.
__global__ void wgmma_probe_kernel(float* out) {
  constexpr int kCoreBytes = 128;
  __shared__ alignas(128) __nv_bfloat16 b[kN * kK];  // [kK / 8][kN][8]: a core matrix per 8 of K
  const int thread = static_cast<int>(threadIdx.x);
  const int col = thread / 8 % kN;
  const int k = thread % 8 + thread / 64 * 8;
  b[thread] = __float2bfloat16(static_cast<float>(b_value(col, k)));
  fence_async_shared();
  __syncthreads();

  const int lane = thread % 32;
  const int row = thread / 32 * 16 + lane / 4;
  const int pair = lane % 4 * 2;
  const uint32_t a[4] = {a_pair(row, pair), a_pair(row + 8, pair), a_pair(row, pair + 8),
                         a_pair(row + 8, pair + 8)};
  float d[4];
  wgmma_fence();
  wgmma_m64n8k16_bf16(d, a, wgmma_descriptor(shared_address(b), kCoreBytes, kCoreBytes));
  wgmma_commit();
  wgmma_wait<0>();
  for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * kN + pair + i % 2] = d[i];
}

Status cuda_error(cudaError_t error) {
  return internal_error(cudaGetErrorString(error));
}

Status compare(const float* out) {
  for (int row = 0; row < kM; ++row) {
    for (int col = 0; col < kN; ++col) {
      int sum = 0;
      for (int k = 0; k < kK; ++k) sum += a_value(row, k) * b_value(col, k);
      if (const float got = out[row * kN + col]; got != static_cast<float>(sum)) {
        return internal_error("the product at row " + std::to_string(row) + ", column " +
                              std::to_string(col) + " is " + std::to_string(got) + ", not " +
                              std::to_string(sum));
      }
    }
  }
  return {};
}

}  // namespace

Status probe_wgmma(int device) {
  float out[kM * kN] = {};
  float* device_out = nullptr;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMalloc(&device_out, sizeof(out));
  if (error != cudaSuccess) return cuda_error(error);
  wgmma_probe_kernel<<<1, 128>>>(device_out);
  error = cudaGetLastError();
  if (error == cudaSuccess) {
    error = cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost);
  }
  cudaFree(device_out);
  return error == cudaSuccess ? compare(out) : cuda_error(error);
}

}  // namespace octavo::backends::cuda
