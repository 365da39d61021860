#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"
#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

// Blocks of k that are unpacked at a time: 24 blocks of a 32-row panel are 24 KB of codes and 6 KB
// of scales, which stay in L1 beside the activations that stream past.
constexpr int64_t kChunkBlocks = 24;

}  // namespace

void linear_int8(ops::ExecContext& ctx, const ops::LinearArgs& a, const Int8Kernels& kernels) {
  const Int8Kernel& kernel = kernels.by_type[quantized_index(a.w->dtype)];
  const int64_t blocks = a.w->cols / ops::kBlockValues;

  Arena shared(ctx.workspace, ctx.workspace_bytes);
  auto* x = shared.take<QuantizedBlock>(a.x.rows * blocks);
  ctx.pool->parallel_for(a.x.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      kernels.quantize(x + t * blocks, a.x.row<float>(t), blocks, kernel.zero);
    }
  });

  // Chunks of equal length, at most kChunkBlocks.
  const int64_t num_chunks = (blocks + kChunkBlocks - 1) / kChunkBlocks;
  const int64_t chunk = (blocks + num_chunks - 1) / num_chunks;
  const int64_t block_bytes = dtype_traits(a.w->dtype).block_bytes;
  for_each_panel(ctx, a, kernels.panel, shared, [&](const PanelTask& task, Arena& arena) {
    const QuantizedBlock* rows = x + task.row * blocks;
    Int8Multiply product = {task.out,      task.out_stride, rows,   blocks,
                            task.num_rows, nullptr,         blocks, false};
    if (task.num_rows <= kernels.few_rows) {
      kernel.multiply_few(product, {task.weights, blocks, task.next});
      return;
    }
    auto* panel = arena.take<std::byte>(chunk * kernels.panel_block_bytes);
    product.panel = panel;
    for (int64_t block = 0; block < blocks; block += chunk) {
      product.blocks = std::min(chunk, blocks - block);
      product.x = rows + block;
      product.accumulate = block > 0;
      const void* weights[kMaxPanel];
      for (int r = 0; r < kernels.panel; ++r) {
        weights[r] = static_cast<const std::byte*>(task.weights[r]) + block * block_bytes;
      }
      const std::byte* next =
          task.next == nullptr ? nullptr : task.next + block * kernels.panel * block_bytes;
      kernel.unpack(panel, {weights, product.blocks, next});
      kernel.multiply(product);
    }
  });
}

int64_t linear_workspace_bytes(int64_t rows, int64_t cols, int num_threads) {
  // Rounded activations: 4 bytes a value at most (float32 rounded to bfloat16).
  static_assert(sizeof(QuantizedBlock) <= ops::kBlockValues * sizeof(float));
  return round_up(rows * round_up(cols, 2) * static_cast<int64_t>(sizeof(float)), kCacheLine) +
         num_threads * kLinearThreadBytes;
}

}  // namespace octavo::backends::cpu
