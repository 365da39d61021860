// The matrix product on the CPU: three ways to compute it, each with the micro-kernels of an
// instruction set. out = x · wᵀ (+ bias) for weights that lie row by row as in the file.
#pragma once

#include "backends/cpu/micro_kernels.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// Weights of any type, decoded to float32. `round_x`: activations are rounded to bfloat16 first.
void linear_float(ops::ExecContext& ctx, const ops::LinearArgs& args, const FloatKernels& kernels,
                  bool round_x);

// bfloat16 weights and activations, multiplied exactly and summed in float32.
void linear_bf16(ops::ExecContext& ctx, const ops::LinearArgs& args, const Bf16Kernels& kernels);

// Weights of block types, activations rounded to int8.
void linear_int8(ops::ExecContext& ctx, const ops::LinearArgs& args, const Int8Kernels& kernels);

// Workspace for the largest of the three, for `rows` rows of `cols` values.
int64_t linear_workspace_bytes(int64_t rows, int64_t cols, int num_threads);

}  // namespace octavo::backends::cpu
