// Products with E4M3 matrices (pack_weight.h) of more tokens than are streamed: inputs as codes,
// then cuBLASLt. Norms and gates round what they make, where a product is all that reads it.
#pragma once

#include <initializer_list>

#include "backends/cuda/input_e4m3.h"
#include "ops/ops.h"

namespace octavo::backends::cuda {

// Whether one input serves all: matrices of one dtype that want it in one form.
bool share_input(std::initializer_list<const ops::Weight*> weights);

// As LinearArgs; adds to out where `accumulate`. x is bfloat16.
void linear_e4m3(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate);

// The norm and the projections of an attention; false, with nothing of use written, where they are
// not to be computed so.
bool linear_qkv_e4m3(ops::ExecContext& ctx, const ops::NormQkvRopeWriteArgs& a);

// The same for norm, gate and up, and for what they make as the input of down_proj.
bool norm_gate_up_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a);
bool gated_down_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a);

}  // namespace octavo::backends::cuda
