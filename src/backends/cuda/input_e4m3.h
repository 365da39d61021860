// Inputs of products with E4M3 matrices, as codes with a scale for each row: rounded by themselves,
// or as a norm or a gate makes them. Of very few rows a product may round itself, to the same codes
// (kSelfRoundedFeatures of few_tokens.h).
#pragma once

#include "ops/ops.h"

namespace octavo::backends::cuda {

struct E4M3Rows {
  uint8_t* codes = nullptr;  // [rows, cols], without gaps
  float* scales = nullptr;   // [rows]
  int64_t rows = 0;
  int64_t cols = 0;
};

// In the context's workspace, from `offset` on.
E4M3Rows e4m3_rows(const ops::ExecContext& ctx, int64_t offset, int64_t rows, int64_t cols);

// Whether rows of x can be read as the functions below do: four values at a time.
bool reads_fours(const ops::Mat& x);

// Of x, bfloat16.
void round_input(ops::ExecContext& ctx, const E4M3Rows& out, const ops::Mat& x,
                 const ops::InputForm& form);

// Of what rms_norm stores in bfloat16; a.out is not written.
void round_norm(ops::ExecContext& ctx, const E4M3Rows& out, const ops::RmsNormArgs& a,
                const ops::InputForm& form);

// Of what activation_mul stores; a.out is not written. gate and up are bfloat16.
void round_gated(ops::ExecContext& ctx, const E4M3Rows& out, const ops::ActivationMulArgs& a,
                 const ops::InputForm& form);

}  // namespace octavo::backends::cuda
