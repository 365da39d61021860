// Composite ops as sequences of primitives: the default of every backend, and what a fused form is
// tested against.
#include "ops/ops.h"

namespace octavo::ops {
namespace {

void norm_qkv_rope_write(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& a) {
  ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
  ops.linear(ctx, {a.q, a.normed, a.q_proj, a.q_bias});
  ops.linear(ctx, {a.k, a.normed, a.k_proj, a.k_bias});
  ops.linear(ctx, {a.v, a.normed, a.v_proj, a.v_bias});
  for (const Mat& x : {a.q, a.k}) {
    ops.rope(ctx,
             {x, a.batch.positions, a.inv_freq, a.kv.head_dim, a.rotary_dim, a.attention_factor});
  }
  ops.write_kv(ctx, {a.kv, a.k, a.v, a.batch.slot_mapping});
}

void linear_residual(const Ops& ops, ExecContext& ctx, const LinearResidualArgs& a) {
  ops.linear(ctx, {a.scratch, a.y, a.w, a.bias});
  ops.add(ctx, {a.x, a.scratch});
}

void norm_gated_mlp(const Ops& ops, ExecContext& ctx, const NormGatedMlpArgs& a) {
  ops.rms_norm(ctx, {a.normed, a.x, a.norm_weight, a.eps});
  ops.linear(ctx, {a.gate, a.normed, a.gate_proj, a.gate_bias});
  ops.linear(ctx, {a.up, a.normed, a.up_proj, a.up_bias});
  ops.silu_mul(ctx, {a.gate, a.gate, a.up});
  ops.linear_residual(ops, ctx, {a.x, a.gate, a.down_proj, a.down_bias, a.normed});
}

void norm_lm_head(const Ops& ops, ExecContext& ctx, const NormLmHeadArgs& a) {
  ops.gather_rows(ctx, {a.normed, a.x, a.row_ids});
  ops.rms_norm(ctx, {a.normed, a.normed, a.norm_weight, a.eps});
  ops.linear(ctx, {a.logits, a.normed, a.lm_head, nullptr});
}

}  // namespace

void set_default_composites(Ops& ops) {
  if (ops.norm_qkv_rope_write == nullptr) ops.norm_qkv_rope_write = norm_qkv_rope_write;
  if (ops.linear_residual == nullptr) ops.linear_residual = linear_residual;
  if (ops.norm_gated_mlp == nullptr) ops.norm_gated_mlp = norm_gated_mlp;
  if (ops.norm_lm_head == nullptr) ops.norm_lm_head = norm_lm_head;
}

}  // namespace octavo::ops
