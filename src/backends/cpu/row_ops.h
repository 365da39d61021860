// The ops other than linear and attention: bound by memory or small, so that all but those with an
// exponential for each value are compiled for the baseline alone.
#pragma once

#include "backends/cpu/micro_kernels.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// One row of rms_norm.
void rms_norm_row(float* out, const float* x, const float* weight, float eps, int64_t cols);

void embed(ops::ExecContext& ctx, const ops::EmbedArgs& args);
void rms_norm(ops::ExecContext& ctx, const ops::RmsNormArgs& args);
void prepare_input(ops::ExecContext& ctx, const ops::PrepareInputArgs& args);
void rope(ops::ExecContext& ctx, const ops::RopeArgs& args);
void write_kv(ops::ExecContext& ctx, const ops::WriteKvArgs& args);
void scale_queries(ops::ExecContext& ctx, const ops::ScaleQueriesArgs& args);
void activation_mul(ops::ExecContext& ctx, const ops::ActivationMulArgs& args,
                    const FloatKernels& kernels);
void softcap(ops::ExecContext& ctx, const ops::SoftcapArgs& args, const FloatKernels& kernels);
void add(ops::ExecContext& ctx, const ops::AddArgs& args);
void gather_rows(ops::ExecContext& ctx, const ops::GatherRowsArgs& args);
void route(ops::ExecContext& ctx, const ops::RouteArgs& args);
void combine_experts(ops::ExecContext& ctx, const ops::CombineExpertsArgs& args);

}  // namespace octavo::backends::cpu
