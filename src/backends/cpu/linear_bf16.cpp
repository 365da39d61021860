#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"

namespace octavo::backends::cpu {
namespace {

// Pairs of k that are unpacked at a time: kMaxPanel * 256 words are 32 KB.
constexpr int64_t kChunkPairs = 256;

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
  for_each_panel(ctx, a, kernels.panel, shared, [&](const PanelTask& task, Arena& arena) {
    auto* panel = arena.take<uint32_t>(kChunkPairs * kernels.panel);
    for (int64_t pair = 0; pair < pairs; pair += kChunkPairs) {
      const int64_t count = std::min(kChunkPairs, pairs - pair);
      const void* rows[kMaxPanel];
      for (int r = 0; r < kernels.panel; ++r) {
        rows[r] = static_cast<const uint16_t*>(task.weights[r]) + 2 * pair;
      }
      kernels.unpack(panel, rows, std::min(2 * count, a.x.cols - 2 * pair));
      kernels.multiply({task.out, task.out_stride, rounded + task.row * pairs + pair, pairs,
                        task.num_rows, panel, count, pair > 0});
    }
  });
}

}  // namespace octavo::backends::cpu
