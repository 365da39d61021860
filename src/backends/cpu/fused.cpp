#include "backends/cpu/fused.h"

#include <algorithm>
#include <initializer_list>

#include "backends/cpu/int8_matrix.h"
#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

using ops::kBlockValues;

bool can_fuse(const ops::Ops& ops, std::initializer_list<const ops::Weight*> weights,
              const FusedKernels& kernels) {
  return std::all_of(weights.begin(), weights.end(), [&](const ops::Weight* w) {
    return ops.linear_by_dtype[static_cast<int>(w->dtype)] == kernels.linear && w->input.as_it_is();
  });
}

// A gate and an up projection: each output goes through the activation where its two sums end, and
// 32 of them are rounded at once for the down projection.
struct GatedProduct {
  const ops::NormGatedMlpArgs& args;
  const FusedKernels& kernels;
  const Int8Matrix& gate;
  const Int8Matrix& up;
  const Int8Matrix& down;
  const QuantizedBlock* x;
  QuantizedBlock* y;  // [n, down.blocks()]

  // Columns [32 * block, 32 * block + 32) of rows [row, row + num_rows) of one projection.
  void multiply(float* sums, const Int8Matrix& matrix, const ops::Weight& w, const float* bias,
                int64_t block, bool has_next, int64_t row, int64_t num_rows, Arena arena) const {
    const int panel = kernels.int8.panel;
    const int64_t panels = kBlockValues / panel;
    for (int64_t i = 0; i < panels; ++i) {
      PanelTask task = panel_task(w, panel, block * panels + i, has_next || i + 1 < panels);
      task.row = row;
      task.num_rows = num_rows;
      task.out = sums + i * panel;
      task.out_stride = kBlockValues;
      Arena rest = arena;
      matrix.multiply(task, x, rest);
    }
    if (bias == nullptr) return;
    for (int64_t r = 0; r < num_rows; ++r) {
      for (int i = 0; i < kBlockValues; ++i) {
        sums[r * kBlockValues + i] += bias[block * kBlockValues + i];
      }
    }
  }

  void run(int64_t block, bool has_next, int64_t row, Arena arena) const {
    const int64_t num_rows = std::min(kRowBlock, args.x.rows - row);
    auto* gates = arena.take<float>(kRowBlock * kBlockValues);
    auto* ups = arena.take<float>(kRowBlock * kBlockValues);
    multiply(gates, gate, *args.gate_proj, args.gate_bias, block, has_next, row, num_rows, arena);
    multiply(ups, up, *args.up_proj, args.up_bias, block, has_next, row, num_rows, arena);
    const auto activate = args.activation == ops::Activation::kSilu ? kernels.floats.silu_mul
                                                                    : kernels.floats.gelu_tanh_mul;
    activate(gates, gates, ups, num_rows * kBlockValues);
    for (int64_t r = 0; r < num_rows; ++r) {
      kernels.int8.quantize(y + (row + r) * down.blocks() + block, gates + r * kBlockValues, 1,
                            down.kernel());
    }
  }
};

void run_gated(ops::ExecContext& ctx, const GatedProduct& product, Arena shared) {
  auto* scratch = shared.take<std::byte>(ctx.pool->num_threads() * kLinearThreadBytes);
  ctx.pool->parallel_for(product.down.blocks(), 1, [&](int64_t begin, int64_t end, int thread) {
    const Arena arena(scratch + thread * kLinearThreadBytes, kLinearThreadBytes);
    for (int64_t row = 0; row < product.args.x.rows; row += kRowBlock) {
      for (int64_t block = begin; block < end; ++block) {
        product.run(block, block + 1 < end, row, arena);
      }
    }
  });
}

// One product of rows that are rounded already.
void run_product(ops::ExecContext& ctx, const PanelJob& job, const Int8Matrix& matrix,
                 const QuantizedBlock* x, int panel, Arena shared) {
  for_each_panel(ctx, {&job, 1}, panel, shared, [&](size_t, const PanelTask& task, Arena& arena) {
    matrix.multiply(task, x, arena);
  });
}

}  // namespace

void fused_norm_qkv_rope_write(const ops::Ops& ops, ops::ExecContext& ctx,
                               const ops::NormQkvRopeWriteArgs& a, const FusedKernels& kernels) {
  if (!can_fuse(ops, {a.q_proj, a.k_proj, a.v_proj}, kernels)) {
    return ops::norm_qkv_rope_write(ops, ctx, a);
  }
  const Int8Matrix matrices[] = {Int8Matrix(*a.q_proj, kernels.int8, true),
                                 Int8Matrix(*a.k_proj, kernels.int8, true),
                                 Int8Matrix(*a.v_proj, kernels.int8, true)};
  // Workspace holds the input in two forms; values of their own type are usual, keys are not.
  if (!matrices[1].shares_input_with(matrices[0])) return ops::norm_qkv_rope_write(ops, ctx, a);
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const QuantizedBlock* inputs[3];
  inputs[0] = inputs[1] =
      quantize_input(ctx, a.x, {a.norm_weight, a.eps, a.normed}, matrices[0], kernels.int8, shared);
  const ops::Mat& in = a.norm_weight == nullptr ? a.x : a.normed;
  inputs[2] = matrices[2].shares_input_with(matrices[0])
                  ? inputs[0]
                  : quantize_input(ctx, in, {}, matrices[2], kernels.int8, shared);
  const PanelJob jobs[] = {{{a.q, in, a.q_proj, a.q_bias}},
                           {{a.k, in, a.k_proj, a.k_bias}},
                           {{a.v, in, a.v_proj, a.v_bias}}};
  for_each_panel(ctx, jobs, kernels.int8.panel, shared,
                 [&](size_t job, const PanelTask& task, Arena& arena) {
                   matrices[job].multiply(task, inputs[job], arena);
                 });
  ops::finish_qkv(ops, ctx, a);
}

void fused_linear_residual(const ops::Ops& ops, ops::ExecContext& ctx,
                           const ops::LinearResidualArgs& a, const FusedKernels& kernels) {
  // A norm needs whole rows first.
  if (a.norm_weight != nullptr || !can_fuse(ops, {a.w}, kernels)) {
    return ops::linear_residual(ops, ctx, a);
  }
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const Int8Matrix matrix(*a.w, kernels.int8, false);
  const QuantizedBlock* y = quantize_input(ctx, a.y, {}, matrix, kernels.int8, shared);
  run_product(ctx, {{a.x, a.y, a.w, a.bias}, true}, matrix, y, kernels.int8.panel, shared);
}

void fused_norm_gated_mlp(const ops::Ops& ops, ops::ExecContext& ctx,
                          const ops::NormGatedMlpArgs& a, const FusedKernels& kernels) {
  if (!can_fuse(ops, {a.gate_proj, a.up_proj, a.down_proj}, kernels)) {
    return ops::norm_gated_mlp(ops, ctx, a);
  }
  const Int8Matrix gate(*a.gate_proj, kernels.int8, true);
  const Int8Matrix up(*a.up_proj, kernels.int8, true);
  const Int8Matrix down(*a.down_proj, kernels.int8, false);
  if (!up.shares_input_with(gate)) return ops::norm_gated_mlp(ops, ctx, a);
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const QuantizedBlock* x =
      quantize_input(ctx, a.x, {a.norm_weight, a.eps, a.normed}, gate, kernels.int8, shared);
  auto* y = shared.take<QuantizedBlock>(a.x.rows * down.blocks());
  run_gated(ctx, {a, kernels, gate, up, down, x, y}, shared);
  const bool adds = a.post_norm_weight == nullptr;
  run_product(ctx, {{adds ? a.x : a.normed, a.gate, a.down_proj, a.down_bias}, adds}, down, y,
              kernels.int8.panel, shared);
  if (adds) return;
  ops.rms_norm(ctx, {a.normed, a.normed, a.post_norm_weight, a.eps});
  ops.add(ctx, {a.x, a.normed});
}

}  // namespace octavo::backends::cpu
