// Attention of the CUDA backend over a step's mixed batch: short sequences (decodes) by the kernel
// that reads the cache once, the others by prefill; or all by the plain kernel.
#include "backends/cuda/attention_decode.h"
#include "backends/cuda/attention_prefill.h"
#include "backends/cuda/attention_reference.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kv_write.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ops_state.h"
#include "base/check.h"

namespace octavo::backends::cuda {
namespace {

int to_int(int64_t value) {
  OCTAVO_CHECK(value >= 0 && value <= INT32_MAX);
  return static_cast<int>(value);
}

// Keys before the query's own that it sees.
int window_left(const ops::AttentionArgs& a) {
  return a.window > 0 ? to_int(a.window) - 1 : -1;
}

// What the argument structs of all kernels have in common.
template <typename Args>
void set_batch(Args& args, const ops::AttentionArgs& a, int64_t first_seq, int64_t num_seqs) {
  OCTAVO_CHECK(a.q.dtype == DType::kBF16 && a.q.stride == a.q.cols);
  OCTAVO_CHECK(a.out.stride == a.out.cols);
  const ops::SequenceBatch& batch = a.batch;
  args.q = a.q.data;
  args.k = a.kv.k;
  args.v = a.kv.v;
  args.kv_dtype = a.kv.dtype;
  args.num_tokens = to_int(batch.num_tokens);
  args.num_seqs = to_int(num_seqs);
  args.num_heads = to_int(a.num_heads);
  args.num_kv_heads = to_int(a.kv.num_kv_heads);
  args.head_dim = to_int(a.kv.head_dim);
  args.cu_seqlens_q = batch.cu_seqlens_q + first_seq;
  args.seq_lens = batch.seq_lens + first_seq;
  args.block_table = batch.block_table + first_seq * batch.block_table_stride;
  args.block_table_stride = batch.block_table_stride;
  args.block_size = to_int(a.kv.block_size);
  args.scale = a.scale;
  args.softcap = a.softcap;
}

void decode(ops::ExecContext& ctx, const ops::AttentionArgs& a, bool portable) {
  DecodeArgs args;
  set_batch(args, a, 0, a.batch.num_short_seqs);
  args.out = a.out.data;
  args.max_q_len = to_int(a.batch.max_short_rows);
  args.window_left = window_left(a);
  args.chunk = to_int(a.chunk);
  const OpsState::Plan plan = state_of(ctx).plan({true, portable, args.window_left, args.chunk},
                                                 a.batch.step_id, decode_workspace_bytes(args));
  if (plan.stale) check_op(plan_decode(args, plan.memory, stream_of(ctx)));
  check_op(decode_attention(
      args, plan.memory, stream_of(ctx),
      {.overlap_previous = !plan.stale, .after_plan = plan.stale, .portable = portable}));
}

void prefill(ops::ExecContext& ctx, const ops::AttentionArgs& a, bool portable) {
  PrefillArgs args;
  set_batch(args, a, a.batch.num_short_seqs, a.batch.num_seqs - a.batch.num_short_seqs);
  args.out = a.out.data;
  args.num_blocks = a.kv.num_blocks;
  args.mask = {window_left(a), 0, to_int(a.chunk)};
  args.portable = portable;
  const OpsState::Plan plan =
      state_of(ctx).plan({false, portable, args.mask.window_left, args.mask.chunk}, a.batch.step_id,
                         prefill_workspace_bytes(args));
  if (plan.stale) check_op(plan_prefill(args, plan.memory, stream_of(ctx)));
  check_op(prefill_attention(args, plan.memory, stream_of(ctx)));
}

void attend(ops::ExecContext& ctx, const ops::AttentionArgs& a, bool portable) {
  OCTAVO_CHECK(a.out.dtype == DType::kBF16);
  if (a.batch.num_short_seqs > 0) decode(ctx, a, portable);
  if (a.batch.num_short_seqs < a.batch.num_seqs) prefill(ctx, a, portable);
}

// Whether write_kv.h has a kernel for these heads.
bool takes_fused_write(const ops::NormQkvRopeWriteArgs& a) {
  return a.rope_variants == nullptr && a.query_attn_scale == 0 && a.kv.head_dim % 16 == 0 &&
         a.kv.head_dim <= 512 && a.rotary_dim % 16 == 0 && a.kv.block_size % 16 == 0 &&
         a.q.dtype == DType::kBF16;
}

void write_fused(ops::ExecContext& ctx, const ops::NormQkvRopeWriteArgs& a) {
  KvWriteArgs args;
  args.q = a.q.data;
  args.k = a.k.data;
  args.v = a.v.data;
  args.q_stride = a.q.stride;
  args.k_stride = a.k.stride;
  args.v_stride = a.v.stride;
  args.num_tokens = to_int(a.q.rows);
  args.num_heads = to_int(a.q.cols / a.kv.head_dim);
  args.num_kv_heads = to_int(a.kv.num_kv_heads);
  args.head_dim = to_int(a.kv.head_dim);
  args.k_cache = a.kv.k;
  args.v_cache = a.kv.v;
  args.kv_dtype = a.kv.dtype;
  args.num_blocks = a.kv.num_blocks;
  args.block_size = to_int(a.kv.block_size);
  args.slot_mapping = a.batch.slot_mapping;
  args.rotary_dim = to_int(a.rotary_dim);
  args.positions = a.batch.positions;
  args.inv_freq = a.inv_freq;
  args.attention_factor = a.attention_factor;
  check_op(write_kv(args, stream_of(ctx), true));
}

}  // namespace

void attention_flash_3(ops::ExecContext& ctx, const ops::AttentionArgs& a) {
  attend(ctx, a, false);
}

void attention_flash_2(ops::ExecContext& ctx, const ops::AttentionArgs& a) {
  attend(ctx, a, true);
}

void attention_eager(ops::ExecContext& ctx, const ops::AttentionArgs& a) {
  if (a.q.rows == 0) return;
  ReferenceAttentionArgs args;
  set_batch(args, a, 0, a.batch.num_seqs);
  const ops::Mat exact(ctx.workspace, DType::kF32, a.q.rows, a.q.cols);
  OCTAVO_CHECK(dtype_bytes(DType::kF32, exact.rows * exact.cols) <= ctx.workspace_bytes);
  args.out = static_cast<float*>(exact.data);
  args.window_left = window_left(a);
  args.window_right = 0;
  args.chunk = to_int(a.chunk);
  attention_reference(args, stream_of(ctx));
  convert(ctx, a.out, exact);
}

void norm_qkv_rope_write(const ops::Ops& ops, ops::ExecContext& ctx,
                         const ops::NormQkvRopeWriteArgs& a) {
  linear_qkv(ops, ctx, a);
  if (!takes_fused_write(a)) return ops::finish_qkv(ops, ctx, a);
  if (a.qk_norm != ops::QkNorm::kNone) ops::norm_qk(ops, ctx, a);
  write_fused(ctx, a);
}

}  // namespace octavo::backends::cuda
