// Composite ops of a layer whose weights are multiplied with int8 activations, in as few parallel
// regions as possible: activations are rounded once for all products that read them, residuals are
// added and gates applied where an output's sum ends. The bits are those of the default composites,
// which compute what is not fused here: weights that are multiplied in another way.
#pragma once

#include "backends/cpu/micro_kernels.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

struct FusedKernels {
  const Int8Kernels& int8;
  const FloatKernels& floats;
  ops::OpFn<ops::LinearArgs> linear;  // what the ops have for weights that may be fused
};

void fused_norm_qkv_rope_write(const ops::Ops& ops, ops::ExecContext& ctx,
                               const ops::NormQkvRopeWriteArgs& args, const FusedKernels& kernels);
void fused_linear_residual(const ops::Ops& ops, ops::ExecContext& ctx,
                           const ops::LinearResidualArgs& args, const FusedKernels& kernels);
void fused_norm_gated_mlp(const ops::Ops& ops, ops::ExecContext& ctx,
                          const ops::NormGatedMlpArgs& args, const FusedKernels& kernels);

}  // namespace octavo::backends::cpu
