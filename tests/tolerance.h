// How far a kernel may be from the oracle: the one place for such numbers. Linear errors are
// relative to the sum of |x * w| of the output, the others to the largest magnitude of the result.
#pragma once

#include "backends/backend.h"

namespace octavo::testing {

// Against the oracle on the same rounded activations: only the order of float32 sums differs.
inline constexpr double kLinearSameActivations = 2e-6;

// Against the oracle on the activations as they were: half a step of the rounding.
inline double linear_tolerance(backends::Arithmetic arithmetic) {
  switch (arithmetic) {
    case backends::Arithmetic::kBFloat16:
      return 0x1p-8 + kLinearSameActivations;  // 8 bits of significand
    case backends::Arithmetic::kInt8:
      return 1e-2;  // 1/254 of the block's largest value, which is 2 to 3 times the average
    default:
      return kLinearSameActivations;
  }
}

inline constexpr double kAttention = 2e-5;
// Queries and softmax weights rounded to 8 bits of significand, which scores of up to 10 multiply.
inline constexpr double kAttentionBFloat16 = 1e-2;
inline constexpr double kRmsNorm = 1e-6;
inline constexpr double kRope = 5e-7;
inline constexpr double kSiluMul = 1e-6;
// Far below zero the rounding of the exponent, up to 30, shows in what is left.
inline constexpr double kGeluTanhMul = 4e-6;
inline constexpr double kSoftcap = 1e-6;
inline constexpr double kExperts = 1e-6;

// GPUs sum in float32 in other orders, and their functions are less exact.
inline constexpr double kGpuRmsNorm = 2e-6;
inline constexpr double kGpuRope = 2e-6;
inline constexpr double kGpuSoftcap = 2e-6;
inline constexpr double kGpuProduct = 1e-5;
// Half a step of a bfloat16 result, and as much where a rounding falls the other way.
inline constexpr double kGpuBf16Rounding = 0x1p-8;
// Probabilities meet values in bfloat16; the result is one.
inline constexpr double kGpuAttention = 1.5e-2;
// Several bfloat16 steps in a row.
inline constexpr double kGpuComposite = 2e-2;
// The root of the mean square where what lies between is rounded to E4M3, some the other way.
inline constexpr double kGpuE4M3Composite = 4e-2;
// Of E4M3 by cuBLASLt, whose sums are less exact than float32: measured, 5e-4 at most.
inline constexpr double kGpuE4M3Product = 1e-3;

}  // namespace octavo::testing
