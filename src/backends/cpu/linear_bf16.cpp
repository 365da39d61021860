#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"
#include "backends/cpu/pack_lanes.h"

namespace octavo::backends::cpu {
namespace {

// Pairs of k that are multiplied at a time: kMaxPanel * 256 words are 32 KB. They are unpacked in
// steps, between which the same part of the next panel is prefetched.
constexpr int64_t kChunkPairs = 256;
constexpr int64_t kStepPairs = 32;

// Pairs [begin, begin + count) of a panel's rows, which have `cols` values.
void unpack_chunk(uint32_t* panel, const PanelTask& task, int64_t begin, int64_t count,
                  int64_t cols, const Bf16Kernels& kernels) {
  for (int64_t i = 0; i < count; i += kStepPairs) {
    const int64_t values = std::min(2 * kStepPairs, cols - 2 * (begin + i));
    const PanelRows rows(task, kernels.panel, 4 * (begin + i), 2 * values);
    kernels.unpack(panel + i * kernels.panel, rows.pointers, values);
  }
}

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
  const int64_t lane_words = packed_lanes(a.w->layout) * pairs;
  const PanelJob job{a};
  for_each_panel(
      ctx, {&job, 1}, kernels.panel, shared, [&](size_t, const PanelTask& task, Arena& arena) {
        const bool packed = task.packed != nullptr;
        Bf16Multiply product = {task.out, task.out_stride, rounded + task.row * pairs,
                                pairs,    task.num_rows,   nullptr,
                                pairs,    false,           lane_words};
        if (packed && task.num_rows <= kernels.few_rows) {
          product.panel = reinterpret_cast<const uint32_t*>(task.packed);
          return kernels.multiply(product);
        }
        auto* panel = packed ? nullptr : arena.take<uint32_t>(kChunkPairs * kernels.panel);
        for (int64_t pair = 0; pair < pairs; pair += kChunkPairs) {
          product.pairs = std::min(kChunkPairs, pairs - pair);
          product.x = rounded + task.row * pairs + pair;
          product.accumulate = pair > 0;
          if (packed) {
            product.panel =
                reinterpret_cast<const uint32_t*>(task.packed) + pair * packed_lanes(a.w->layout);
          } else {
            unpack_chunk(panel, task, pair, product.pairs, a.x.cols, kernels);
            product.panel = panel;
          }
          kernels.multiply(product);
        }
      });
}

}  // namespace octavo::backends::cpu
