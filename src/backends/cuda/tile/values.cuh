// Rows of float or bfloat16 as kernels of single values see them: kWidth values at a time, which
// are float while they are computed with.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "base/check.h"
#include "ops/mat.h"

namespace octavo::backends::cuda {

template <int kWidth>
struct alignas(4 * kWidth) Values {
  float v[kWidth];
};

// Aligned to kWidth values.
template <int kWidth>
__device__ Values<kWidth> load(const float* from) {
  return *reinterpret_cast<const Values<kWidth>*>(from);
}

template <int kWidth>
__device__ Values<kWidth> load(const __nv_bfloat16* from) {
  Values<kWidth> values;
  if constexpr (kWidth == 4) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    values.v[0] = __uint_as_float(words.x << 16);
    values.v[1] = __uint_as_float(words.x & 0xFFFF0000);
    values.v[2] = __uint_as_float(words.y << 16);
    values.v[3] = __uint_as_float(words.y & 0xFFFF0000);
  } else {
    values.v[0] = __bfloat162float(*from);
  }
  return values;
}

template <int kWidth>
__device__ void store(float* to, const Values<kWidth>& values) {
  *reinterpret_cast<Values<kWidth>*>(to) = values;
}

template <int kWidth>
__device__ void store(__nv_bfloat16* to, const Values<kWidth>& values) {
  if constexpr (kWidth == 4) {
    uint2 words;
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
    pairs[0] = __floats2bfloat162_rn(values.v[0], values.v[1]);
    pairs[1] = __floats2bfloat162_rn(values.v[2], values.v[3]);
    *reinterpret_cast<uint2*>(to) = words;
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
  return mat.cols % 4 == 0 && mat.stride % 4 == 0 &&
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
