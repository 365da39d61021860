#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"

namespace octavo::backends::cpu {
namespace {

// Pairs of k that are multiplied at a time: kMaxPanel * 256 words are 32 KB. They are unpacked in
// steps, between which the same part of the next panel is prefetched.
constexpr int64_t kChunkPairs = 256;
constexpr int64_t kStepPairs = 32;

}  // namespace

void linear_bf16(ops::ExecContext& ctx, const ops::LinearArgs& a, const Bf16Kernels& kernels) {
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const int64_t pairs = (a.x.cols + 1) / 2;
  auto* rounded = shared.take<uint32_t>(a.x.rows * pairs);
  ctx.pool->parallel_for(a.x.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      kernels.round(rounded + t * pairs, a.x.row<float>(t), a.x.cols);
    }
  });
  const PanelJob job{a};
  for_each_panel(ctx, {&job, 1}, kernels.panel, shared,
                 [&](size_t, const PanelTask& task, Arena& arena) {
                   auto* panel = arena.take<uint32_t>(kChunkPairs * kernels.panel);
                   for (int64_t pair = 0; pair < pairs; pair += kChunkPairs) {
                     const int64_t count = std::min(kChunkPairs, pairs - pair);
                     for (int64_t i = 0; i < count; i += kStepPairs) {
                       const int64_t values = std::min(2 * kStepPairs, a.x.cols - 2 * (pair + i));
                       const PanelRows rows(task, kernels.panel, 4 * (pair + i), 2 * values);
                       kernels.unpack(panel + i * kernels.panel, rows.pointers, values);
                     }
                     kernels.multiply({task.out, task.out_stride, rounded + task.row * pairs + pair,
                                       pairs, task.num_rows, panel, count, pair > 0});
                   }
                 });
}

}  // namespace octavo::backends::cpu
