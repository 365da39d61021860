// Rows of float or bfloat16 as kernels of single values see them: kWidth values at a time, which
// are float while they are computed with.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "base/check.h"
#include "ops/mat.h"

namespace octavo::backends::cuda {

template <int kWidth>
struct Values {
  float v[kWidth];
};

// Aligned to kWidth values.
template <int kWidth>
__device__ Values<kWidth> load(const float* from) {
  Values<kWidth> values;
  if constexpr (kWidth == 4) {
    const float4 word = *reinterpret_cast<const float4*>(from);
    values = {word.x, word.y, word.z, word.w};
  } else {
    values.v[0] = *from;
  }
  return values;
}

template <int kWidth>
__device__ Values<kWidth> load(const __nv_bfloat16* from) {
  Values<kWidth> values;
  if constexpr (kWidth == 4) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    values = {__uint_as_float(words.x << 16), __uint_as_float(words.x & 0xFFFF0000),
              __uint_as_float(words.y << 16), __uint_as_float(words.y & 0xFFFF0000)};
  } else {
    values.v[0] = __bfloat162float(*from);
  }
  return values;
}

template <int kWidth>
__device__ void store(float* to, const Values<kWidth>& values) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = {values.v[0], values.v[1], values.v[2], values.v[3]};
  } else {
    *to = values.v[0];
  }
}

template <int kWidth>
__device__ void store(__nv_bfloat16* to, const Values<kWidth>& values) {
  if constexpr (kWidth == 4) {
    __nv_bfloat162 pairs[2] = {__floats2bfloat162_rn(values.v[0], values.v[1]),
                               __floats2bfloat162_rn(values.v[2], values.v[3])};
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(pairs);
  } else {
    *to = __float2bfloat16_rn(values.v[0]);
  }
}

// The values of a Mat whose dtype is known.
template <typename T>
struct Rows {
  T* data;
  int64_t stride;

  explicit Rows(const ops::Mat& mat) : data(static_cast<T*>(mat.data)), stride(mat.stride) {}
  __device__ T* at(int64_t row, int64_t col) const { return data + row * stride + col; }
};

// Whether four values at a time may be loaded from and stored to `mat`.
inline bool takes_fours(const ops::Mat& mat) {
  const int64_t bytes = dtype_traits(mat.dtype).block_bytes;
  return mat.cols % 4 == 0 && (mat.stride % 4 == 0 || mat.rows == 1) &&
         reinterpret_cast<uintptr_t>(mat.data) % static_cast<uintptr_t>(4 * bytes) == 0;
}

// Calls visit.operator()<T>() with the type of an activation.
template <typename Visit>
void with_type(DType dtype, const Visit& visit) {
  OCTAVO_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  if (dtype == DType::kF32) {
    visit.template operator()<float>();
  } else {
    visit.template operator()<__nv_bfloat16>();
  }
}

}  // namespace octavo::backends::cuda
