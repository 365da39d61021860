// Rounding of a product's input to E4M3: one scale a row, the same bits in every kernel that does
// it, and those of a division by the scale.
#pragma once

#include <cuda_fp8.h>

#include <cfloat>

#include "ops/weight.h"

namespace octavo::backends::cuda {

// Of a row whose largest magnitude is `largest`.
__device__ inline float input_scale(const ops::InputForm& form, float largest) {
  constexpr float kLargestE4M3 = 448.0f;
  float scale = form.scale;
  if (form.rounding == ops::InputRounding::kDynamicE4M3) {
    scale = largest == 0.0f ? 1.0f : largest / kLargestE4M3;
    if (form.scale > 0.0f) scale = fminf(scale, form.scale);
  }
  return fmaxf(scale, FLT_MIN);  // whose inverse is finite
}

struct RowScale {
  float scale, inverse;

  __device__ explicit RowScale(float of) : scale(of), inverse(1.0f / of) {}
  // x / scale, by one step of correction; what is far beyond E4M3 only has to stay there.
  __device__ float divide(float x) const {
    const float quotient = x * inverse;
    const float exact = fmaf(fmaf(-quotient, scale, x), inverse, quotient);
    return fabsf(quotient) < 1e4f ? exact : quotient;
  }
  // The codes of two values, the first in the low byte.
  __device__ uint32_t round(float first, float second) const {
    return __nv_cvt_float2_to_fp8x2({divide(first), divide(second)}, __NV_SATFINITE, __NV_E4M3);
  }
};

}  // namespace octavo::backends::cuda
