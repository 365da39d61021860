// What a gated MLP makes of its gate.
#pragma once

#include "ops/ops.h"

namespace octavo::backends::cuda {

__device__ inline float activate(float z, ops::Activation activation) {
  if (activation == ops::Activation::kSilu) return z / (1.0f + expf(-z));
  const float u = 0.7978845608028654f * (z + 0.044715f * z * z * z);
  return z / (1.0f + expf(-2.0f * u));
}

}  // namespace octavo::backends::cuda
