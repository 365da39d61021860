// Matrix products of the CUDA backend: few tokens by our own kernels, which read the matrix at the
// speed of memory, more by cuBLASLt; and the composite ops around them.
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "backends/cuda/device_error.h"
#include "backends/cuda/few_tokens.h"
#include "backends/cuda/linear_e4m3.h"
#include "backends/cuda/linear_int4.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ops_state.h"
#include "base/check.h"

namespace octavo::backends::cuda {
namespace {

// x in bfloat16, in the workspace where it is not, or where its rows do not lie as products with
// codes read them.
ops::Mat in_bfloat16(ops::ExecContext& ctx, const ops::Mat& x, const ops::Weight& w) {
  const bool lies_well = x.stride % 8 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  if (x.dtype == DType::kBF16 && (lies_well || w.dtype == DType::kBF16)) return x;
  const ops::Mat converted(ctx.workspace, DType::kBF16, x.rows, x.cols);
  OCTAVO_CHECK(dtype_bytes(DType::kBF16, x.rows * x.cols) <= ctx.workspace_bytes);
  convert(ctx, converted, x);
  return converted;
}

// Whether one launch can multiply all with one input as it is.
bool share_input(std::initializer_list<const ops::Weight*> weights) {
  const ops::Weight& first = **weights.begin();
  return std::all_of(weights.begin(), weights.end(), [&](const ops::Weight* w) {
    return w->dtype != DType::kF8E4M3 && w->layout == first.layout && w->group == first.group &&
           w->input.as_it_is();
  });
}

void multiply(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate) {
  if (a.x.rows == 0) return;
  const ops::Mat x = in_bfloat16(ctx, a.x, *a.w);
  if (a.w->dtype == DType::kF8E4M3) return linear_e4m3(ctx, {a.out, x, a.w, a.bias}, accumulate);
  if (a.w->layout == ops::PackedLayout::kInt4Tiles) {
    return linear_int4(ctx, {a.out, x, a.w, a.bias}, accumulate);
  }
  FewTokensArgs few;
  few.out[0] = a.out;
  few.w[0] = a.w;
  few.bias[0] = a.bias;
  few.x = x;
  few.accumulate = accumulate;
  if (takes_few_tokens(few)) return multiply_few_tokens(few, stream_of(ctx));
  MatmulArgs args;
  args.out = a.out.data;
  args.out_dtype = a.out.dtype;
  args.out_stride = a.out.stride;
  args.accumulate = accumulate;
  args.x = x.data;
  args.x_stride = x.stride;
  args.w = a.w->data;
  args.num_tokens = x.rows;
  args.out_features = a.w->rows;
  args.in_features = a.w->cols;
  // Biases are float32, which cuBLASLt takes with results of float32 only.
  args.bias = a.out.dtype == DType::kF32 ? a.bias : nullptr;
  if (!Matmul::fits(args)) return multiply_few_tokens(few, stream_of(ctx));
  if (args.bias != a.bias) {
    fill_bias(ctx, a.out, a.bias);
    args.accumulate = true;
  }
  const Status status = state_of(ctx).matmul().run(args, stream_of(ctx));
  if (status.code() == StatusCode::kUnsupported) return multiply_few_tokens(few, stream_of(ctx));
  check_op(status);
}

// What norm_gated_mlp does once gate and up are multiplied; `gated`: with each other, too.
void finish_gated_mlp(const ops::Ops& ops, ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a,
                      bool gated) {
  if (!gated) {
    if (gated_down_e4m3(ctx, a)) return;
    ops.activation_mul(ctx, {a.gate, a.gate, a.up, a.activation});
  }
  ops.linear_residual(ops, ctx,
                      {a.x, a.gate, a.down_proj, a.down_bias, a.normed, a.post_norm_weight, a.eps});
}

}  // namespace

int64_t workspace_bytes(int64_t max_rows, int64_t max_cols, int) {
  return max_rows * max_cols * static_cast<int64_t>(sizeof(float));
}

void linear(ops::ExecContext& ctx, const ops::LinearArgs& a) {
  multiply(ctx, a, false);
}

void linear_qkv(const ops::Ops& ops, ops::ExecContext& ctx, const ops::NormQkvRopeWriteArgs& a) {
  if (linear_qkv_e4m3(ctx, a)) return;
  ops::Mat in = a.x;
  if (a.norm_weight != nullptr) {
    ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
    in = a.normed;
  }
  FewTokensArgs few = {.out = {a.q, a.k, a.v},
                       .w = {a.q_proj, a.k_proj, a.v_proj},
                       .bias = {a.q_bias, a.k_bias, a.v_bias},
                       .x = in};
  if (share_input({a.q_proj, a.k_proj, a.v_proj}) && takes_few_tokens(few)) {
    few.x = in_bfloat16(ctx, in, *a.q_proj);
    return multiply_few_tokens(few, stream_of(ctx));
  }
  ops.linear(ctx, {a.q, in, a.q_proj, a.q_bias});
  ops.linear(ctx, {a.k, in, a.k_proj, a.k_bias});
  ops.linear(ctx, {a.v, in, a.v_proj, a.v_bias});
}

void linear_residual(const ops::Ops& ops, ops::ExecContext& ctx, const ops::LinearResidualArgs& a) {
  if (a.norm_weight == nullptr && a.w->input.as_it_is()) {
    return multiply(ctx, {a.x, a.y, a.w, a.bias}, true);
  }
  ops::linear_residual(ops, ctx, a);
}

void norm_gated_mlp(const ops::Ops& ops, ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a) {
  if (const GateUp made = norm_gate_up_e4m3(ctx, a); made != GateUp::kNone) {
    return finish_gated_mlp(ops, ctx, a, made == GateUp::kGated);
  }
  const ops::Mat in = a.norm_weight != nullptr ? a.normed : a.x;
  FewTokensArgs few = {.out = {a.gate},
                       .w = {a.gate_proj, a.up_proj},
                       .bias = {a.gate_bias, a.up_bias},
                       .x = in,
                       .gated = true,
                       .activation = a.activation};
  if (!share_input({a.gate_proj, a.up_proj}) || !takes_few_tokens(few)) {
    return ops::norm_gated_mlp(ops, ctx, a);
  }
  if (a.norm_weight != nullptr) ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
  few.x = in_bfloat16(ctx, in, *a.gate_proj);
  multiply_few_tokens(few, stream_of(ctx));
  finish_gated_mlp(ops, ctx, a, true);
}

void norm_lm_head(const ops::Ops& ops, ops::ExecContext& ctx, const ops::NormLmHeadArgs& a) {
  gather_rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps}, a.row_ids);
  ops.linear(ctx, {a.logits, a.normed, a.lm_head});
  if (a.softcap > 0) ops.softcap(ctx, {a.logits, a.softcap});
}

// The host must know how many rows each expert has: it waits for the router.
void linear_experts(const ops::Ops& ops, ops::ExecContext& ctx, const ops::LinearExpertsArgs& a) {
  std::vector<int32_t> offsets(static_cast<size_t>(a.num_experts + 1));
  ctx.device->copy_to_host(offsets.data(), a.offsets,
                           static_cast<int64_t>(offsets.size() * sizeof(int32_t)));
  for (int64_t e = 0; e < a.num_experts; ++e) {
    const int64_t begin = offsets[static_cast<size_t>(e)];
    const int64_t rows = offsets[static_cast<size_t>(e + 1)] - begin;
    if (rows == 0) continue;
    ops.linear(ctx, {a.out.row_range(begin, rows), a.x.row_range(begin, rows), &a.experts[e]});
  }
}

}  // namespace octavo::backends::cuda
