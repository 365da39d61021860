// Products of a matrix with few rows of activations, bound by reading the matrix: up to three
// matrices with the same input in one launch. Also what multiplies shapes that cuBLASLt refuses.
//
// The result for a row does not depend on the other rows: each sum over in_features is made in one
// order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/ops.h"

namespace octavo::backends::cuda {

// Up to so many rows this is faster than cuBLASLt. More are taken so many at a time.
inline constexpr int64_t kFewTokens = 4;

inline constexpr int kMaxMatrices = 3;

// out[i] = x · w[i]ᵀ + bias[i], where there is an out[i]. x: [n, in_features], bfloat16; outputs
// [n, w.rows] of one dtype, bfloat16 or float32; weights bfloat16.
struct FewTokensArgs {
  ops::Mat out[kMaxMatrices];
  const ops::Weight* w[kMaxMatrices] = {};
  const float* bias[kMaxMatrices] = {};
  ops::Mat x;
  bool accumulate = false;  // adds to what the outputs hold
  // out[0] = activation(x · w[0]ᵀ) * (x · w[1]ᵀ), both of one shape; there are no other outputs.
  bool gated = false;
  ops::Activation activation = ops::Activation::kSilu;
};

void multiply_few_tokens(const FewTokensArgs& args, cudaStream_t stream);

}  // namespace octavo::backends::cuda
