// The ops of the CUDA backend, as ops/ops.h says. Activations are bfloat16 or float32, weights
// bfloat16, E4M3 or 4-bit codes (pack_weight.h). All run in the stream of ExecContext::device; an
// error is thrown (device_error.h).
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::backends::cuda {

cudaStream_t stream_of(const ops::ExecContext& ctx);

void embed(ops::ExecContext&, const ops::EmbedArgs&);
void rms_norm(ops::ExecContext&, const ops::RmsNormArgs&);
void linear(ops::ExecContext&, const ops::LinearArgs&);
void prepare_input(ops::ExecContext&, const ops::PrepareInputArgs&);
void rope(ops::ExecContext&, const ops::RopeArgs&);
void write_kv_plain(ops::ExecContext&, const ops::WriteKvArgs&);
void scale_queries(ops::ExecContext&, const ops::ScaleQueriesArgs&);
void activation_mul(ops::ExecContext&, const ops::ActivationMulArgs&);
void softcap(ops::ExecContext&, const ops::SoftcapArgs&);
void add(ops::ExecContext&, const ops::AddArgs&);
void gather_rows(ops::ExecContext&, const ops::GatherRowsArgs&);
void route(ops::ExecContext&, const ops::RouteArgs&);
void combine_experts(ops::ExecContext&, const ops::CombineExpertsArgs&);
void draw_tokens(ops::ExecContext&, const ops::DrawTokensArgs&);

// One for each name of attention_choice.cpp that runs on a GPU.
void attention_flash_3(ops::ExecContext&, const ops::AttentionArgs&);
void attention_flash_2(ops::ExecContext&, const ops::AttentionArgs&);
void attention_eager(ops::ExecContext&, const ops::AttentionArgs&);

// Rows row_ids[i] of x, normalised.
void gather_rms_norm(ops::ExecContext&, const ops::RmsNormArgs&, const int32_t* row_ids);
// The same values as another dtype.
void convert(ops::ExecContext&, const ops::Mat& out, const ops::Mat& x);
// out[t, :] = bias, or += bias.
void fill_bias(ops::ExecContext&, const ops::Mat& out, const float* bias);
void add_bias(ops::ExecContext&, const ops::Mat& out, const float* bias);

// The first part of norm_qkv_rope_write: the norm and the projections.
void linear_qkv(const ops::Ops&, ops::ExecContext&, const ops::NormQkvRopeWriteArgs&);

void norm_qkv_rope_write(const ops::Ops&, ops::ExecContext&, const ops::NormQkvRopeWriteArgs&);
void linear_residual(const ops::Ops&, ops::ExecContext&, const ops::LinearResidualArgs&);
void norm_gated_mlp(const ops::Ops&, ops::ExecContext&, const ops::NormGatedMlpArgs&);
void linear_experts(const ops::Ops&, ops::ExecContext&, const ops::LinearExpertsArgs&);
void norm_lm_head(const ops::Ops&, ops::ExecContext&, const ops::NormLmHeadArgs&);

int64_t workspace_bytes(int64_t max_rows, int64_t max_cols, int num_threads);

}  // namespace octavo::backends::cuda
