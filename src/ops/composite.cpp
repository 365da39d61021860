// Composite ops as sequences of primitives: the default of every backend, and what a fused form is
// tested against.
#include "ops/ops.h"

namespace octavo::ops {
namespace {

// The rows of `heads` cut into their heads, `width` values each.
Mat by_head(const Mat& heads, int64_t width) {
  OCTAVO_DCHECK(heads.stride == heads.cols);
  return {heads.data, heads.dtype, heads.rows * (heads.cols / width), width};
}

// What the first matrices of an op read: the norm of x, or x itself where there is no weight.
template <typename Args>
Mat norm_input(const Ops& ops, ExecContext& ctx, const Args& a) {
  if (a.norm_weight == nullptr) return a.x;
  ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
  return a.normed;
}

void linear_experts(const Ops& ops, ExecContext& ctx, const LinearExpertsArgs& a) {
  for (int64_t e = 0; e < a.num_experts; ++e) {
    const int64_t begin = a.offsets[e];
    const int64_t rows = a.offsets[e + 1] - begin;
    if (rows == 0) continue;
    ops.linear(ctx, {a.out.row_range(begin, rows), a.x.row_range(begin, rows), &a.experts[e]});
  }
}

void norm_moe(const Ops& ops, ExecContext& ctx, const NormMoeArgs& a) {
  const Routing& routing = a.routing;
  const ExpertPlan& plan = a.plan;
  ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
  ops.linear(ctx, {a.router_logits, a.normed, a.router});
  ops.route(ctx, {plan, a.router_logits, routing});
  const float* input_scales = routing.weighs_input ? plan.slot_weights : nullptr;
  ops.gather_rows(ctx, {a.expert_x, a.normed, plan.row_ids, input_scales});
  const auto experts = [&](const Mat& out, const Mat& x, const Weight* weights) {
    ops.linear_experts(ops, ctx, {out, x, weights, plan.offsets, routing.num_experts});
  };
  experts(a.expert_gate, a.expert_x, a.gate_proj);
  experts(a.expert_up, a.expert_x, a.up_proj);
  ops.activation_mul(ctx, {a.expert_gate, a.expert_gate, a.expert_up, a.activation});
  experts(a.expert_x, a.expert_gate, a.down_proj);
  ops.combine_experts(ctx, {a.x, a.expert_x, plan, routing.top_k, !routing.weighs_input});
  if (a.shared_gate_proj == nullptr) return;
  ops.linear(ctx, {a.shared_gate, a.normed, a.shared_gate_proj});
  ops.linear(ctx, {a.shared_up, a.normed, a.shared_up_proj});
  ops.activation_mul(ctx, {a.shared_gate, a.shared_gate, a.shared_up, a.activation});
  ops.linear_residual(ops, ctx, {a.x, a.shared_gate, a.shared_down_proj, nullptr, a.normed});
}

void norm_lm_head(const Ops& ops, ExecContext& ctx, const NormLmHeadArgs& a) {
  ops.gather_rows(ctx, {a.normed, a.x, a.row_ids});
  ops.rms_norm(ctx, {a.normed, a.normed, a.norm_weight, a.eps});
  ops.linear(ctx, {a.logits, a.normed, a.lm_head});
  if (a.softcap > 0) ops.softcap(ctx, {a.logits, a.softcap});
}

}  // namespace

void norm_qkv_rope_write(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& a) {
  const Mat in = norm_input(ops, ctx, a);
  ops.linear(ctx, {a.q, in, a.q_proj, a.q_bias});
  ops.linear(ctx, {a.k, in, a.k_proj, a.k_bias});
  ops.linear(ctx, {a.v, in, a.v_proj, a.v_bias});
  finish_qkv(ops, ctx, a);
}

void norm_qk(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& a) {
  const bool per_head = a.qk_norm == QkNorm::kPerHead;
  const Mat q = per_head ? by_head(a.q, a.kv.head_dim) : a.q;
  const Mat k = per_head ? by_head(a.k, a.kv.head_dim) : a.k;
  ops.rms_norm(ctx, {q, q, a.q_norm_weight, a.eps});
  ops.rms_norm(ctx, {k, k, a.k_norm_weight, a.eps});
}

void finish_qkv(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& a) {
  if (a.qk_norm != QkNorm::kNone) norm_qk(ops, ctx, a);
  if (a.rotary_dim > 0) {
    for (const Mat& x : {a.q, a.k}) {
      ops.rope(ctx, {x, a.batch.positions, a.inv_freq, a.kv.head_dim, a.rotary_dim,
                     a.attention_factor, a.rope_variants});
    }
  }
  if (a.query_attn_scale != 0) {
    ops.scale_queries(ctx, {a.q, a.batch.positions, a.query_attn_scale, a.query_floor_scale});
  }
  ops.write_kv(ctx, {a.kv, a.k, a.v, a.batch.slot_mapping});
}

void linear_residual(const Ops& ops, ExecContext& ctx, const LinearResidualArgs& a) {
  ops.linear(ctx, {a.scratch, a.y, a.w, a.bias});
  if (a.norm_weight != nullptr) {
    ops.rms_norm(ctx, {a.scratch, a.scratch, a.norm_weight, a.eps});
  }
  ops.add(ctx, {a.x, a.scratch});
}

void norm_gated_mlp(const Ops& ops, ExecContext& ctx, const NormGatedMlpArgs& a) {
  const Mat in = norm_input(ops, ctx, a);
  ops.linear(ctx, {a.gate, in, a.gate_proj, a.gate_bias});
  ops.linear(ctx, {a.up, in, a.up_proj, a.up_bias});
  ops.activation_mul(ctx, {a.gate, a.gate, a.up, a.activation});
  ops.linear_residual(ops, ctx,
                      {a.x, a.gate, a.down_proj, a.down_bias, a.normed, a.post_norm_weight, a.eps});
}

int64_t prepared_input_bytes(int64_t rows, int64_t cols) {
  constexpr int64_t kAlignment = 64;  // that of a workspace
  const int64_t bytes = rows * cols * static_cast<int64_t>(sizeof(float));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void Ops::linear(ExecContext& ctx, const LinearArgs& a) const {
  const OpFn<LinearArgs> kernel = linear_by_dtype[static_cast<int>(a.w->dtype)];
  if (a.w->input.as_it_is()) return kernel(ctx, a);
  const int64_t bytes = prepared_input_bytes(a.x.rows, a.x.cols);
  OCTAVO_CHECK(bytes <= ctx.workspace_bytes);
  const Mat prepared(ctx.workspace, a.x.dtype, a.x.rows, a.x.cols);
  prepare_input(ctx, {prepared, a.x, a.w->input});
  ExecContext rest = ctx;
  rest.workspace += bytes;
  rest.workspace_bytes -= bytes;
  kernel(rest, {a.out, prepared, a.w, a.bias});
}

void set_default_composites(Ops& ops) {
  if (ops.norm_qkv_rope_write == nullptr) ops.norm_qkv_rope_write = norm_qkv_rope_write;
  if (ops.linear_residual == nullptr) ops.linear_residual = linear_residual;
  if (ops.norm_gated_mlp == nullptr) ops.norm_gated_mlp = norm_gated_mlp;
  if (ops.linear_experts == nullptr) ops.linear_experts = linear_experts;
  if (ops.norm_moe == nullptr) ops.norm_moe = norm_moe;
  if (ops.norm_lm_head == nullptr) ops.norm_lm_head = norm_lm_head;
}

}  // namespace octavo::ops
