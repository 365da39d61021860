// Products of a matrix with few rows of activations, bound by reading the matrix: up to three
// matrices with the same input in one launch. Also what multiplies shapes that cuBLASLt refuses.
//
// The result for a row does not depend on the other rows, but the order of the sum over in_features
// may on how many there are: it is one on GPUs other than Hopper; on Hopper one for 1 to 8 rows,
// one for 9 to 16 (few_tokens_streamed.h), one for 17 to 64 of bfloat16 matrices
// (few_tokens_wgmma.h), whether they are of prompts or of answers, and one for what is more or
// cannot be streamed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/input_e4m3.h"
#include "ops/ops.h"

namespace octavo::backends::cuda {

// Up to so many rows this is faster than cuBLASLt on every GPU, and so many are taken at a time
// where they are not streamed.
inline constexpr int64_t kFewTokens = 4;

// A single row of up to so many values is rounded by the product with E4M3 matrices itself, sooner
// than another kernel would. Of two rows that takes every block longer than that kernel.
inline constexpr int64_t kSelfRoundedFeatures = 16384;

inline constexpr int kMaxMatrices = 3;

// out[i] = x · w[i]ᵀ + bias[i], where there is an out[i]. x: [n, in_features], bfloat16; outputs
// [n, w.rows] of one dtype, bfloat16 or float32; weights bfloat16, or all 4-bit codes in groups of
// one size, or all E4M3 with scales by row and one input form (pack_weight.h): then x is `rounded`,
// but for a single row.
struct FewTokensArgs {
  ops::Mat out[kMaxMatrices];
  const ops::Weight* w[kMaxMatrices] = {};
  const float* bias[kMaxMatrices] = {};
  ops::Mat x;
  E4M3Rows rounded;         // of E4M3 matrices, in place of x's data
  bool accumulate = false;  // adds to what the outputs hold
  // out[0] = activation(x · w[0]ᵀ) * (x · w[1]ᵀ), both of one shape; there are no other outputs.
  bool gated = false;
  ops::Activation activation = ops::Activation::kSilu;
  bool portable = false;  // by the kernel of every GPU, also where another is faster
};

// Whether this is faster than cuBLASLt. x may have another dtype still.
bool takes_few_tokens(const FewTokensArgs& args);

void multiply_few_tokens(const FewTokensArgs& args, cudaStream_t stream);

}  // namespace octavo::backends::cuda
