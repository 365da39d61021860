// 2^x by the special function unit: relative error about 2^-22, results below 2^-126 are 0.
#pragma once

namespace octavo::backends::cuda {

__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace octavo::backends::cuda
