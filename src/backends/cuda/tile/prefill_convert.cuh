// Tiles of the prefill kernels in shared memory that become half precision, 16 bytes at a time.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/ptx/fp8.cuh"
#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

// Where chunk `chunk` of row `row` lies in a tile of `rows` rows.
__device__ __forceinline__ uint32_t chunk_offset(int rows, int row, int chunk) {
  return static_cast<uint32_t>((chunk / 8 * rows + row) * kPanelRowBytes +
                               ((chunk ^ row) & 7) * 16);
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y),
               "r"(x.z), "r"(x.w)
               : "memory");
}

// Two bfloat16 values to half precision; what it cannot hold becomes its largest.
__device__ __forceinline__ uint32_t bf16x2_to_f16x2(uint32_t pair) {
  constexpr float kLargest = 65504.0f;
  const auto clamp = [](float x) {  // NaN stays
    x = x > kLargest ? kLargest : x;
    return x < -kLargest ? -kLargest : x;
  };
  const float low = clamp(__uint_as_float(pair << 16));
  const float high = clamp(__uint_as_float(pair & 0xFFFF0000));
  const __half2 halves = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&halves);
}

// Eight bfloat16 values, in place.
__device__ __forceinline__ void convert_bf16_chunk(uint32_t address) {
  const uint4 x = load_shared_16(address);
  store_shared_16(address, {bf16x2_to_f16x2(x.x), bf16x2_to_f16x2(x.y), bf16x2_to_f16x2(x.z),
                            bf16x2_to_f16x2(x.w)});
}

// Sixteen E4M3 values to two chunks.
__device__ __forceinline__ void store_e4m3_chunk(uint32_t to_first, uint32_t to_second, uint4 x) {
  store_shared_16(to_first, {e4m3x2_to_f16x2(x.x), e4m3x2_to_f16x2(x.x >> 16), e4m3x2_to_f16x2(x.y),
                             e4m3x2_to_f16x2(x.y >> 16)});
  store_shared_16(to_second, {e4m3x2_to_f16x2(x.z), e4m3x2_to_f16x2(x.z >> 16),
                              e4m3x2_to_f16x2(x.w), e4m3x2_to_f16x2(x.w >> 16)});
}
__device__ __forceinline__ void convert_e4m3_chunk(uint32_t to_first, uint32_t to_second,
                                                   uint32_t from) {
  store_e4m3_chunk(to_first, to_second, load_shared_16(from));
}

}  // namespace octavo::backends::cuda
