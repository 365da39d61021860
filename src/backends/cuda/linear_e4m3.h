// Products with E4M3 matrices (pack_weight.h): inputs as codes, then the streamed kernel or
// cuBLASLt. Norms and gates round what they make, where products are all that reads it.
#pragma once

#include <cstdint>

#include "backends/cuda/input_e4m3.h"
#include "ops/ops.h"

namespace octavo::backends::cuda {

// As LinearArgs; adds to out where `accumulate`. x is bfloat16, its rows aligned to 16 bytes.
void linear_e4m3(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate);

// The norm and the projections of an attention; false, with nothing of use written, where they are
// not to be computed so.
bool linear_qkv_e4m3(ops::ExecContext& ctx, const ops::NormQkvRopeWriteArgs& a);

// The same for norm, gate and up. kGated: a.gate holds the gated product; kBoth: not yet.
enum class GateUp : uint8_t { kNone, kBoth, kGated };
GateUp norm_gate_up_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a);

// The product of gate and up as the input of down_proj; false as above.
bool gated_down_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a);

}  // namespace octavo::backends::cuda
