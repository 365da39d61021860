#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"
#include "backends/cpu/pack_lanes.h"
#include "ops/blocks.h"
#include "ops/k_values.h"

namespace octavo::backends::cpu {
namespace {

// Blocks of k that are unpacked at a time: 24 blocks of a 32-row panel are 24 KB of codes and 6 KB
// of scales, which stay in L1 beside the activations that stream past. With two scales for a block
// it is 16, 24 KB in all. Both are whole blocks of any type.
constexpr int64_t chunk_blocks(int parts) {
  return parts == 1 ? 24 : 16;
}

// Types that the kernels cannot unpack: the rows are unpacked one by one.
void unpack_rows(const void* (&rows)[kMaxPanel], int panel, ops::KValues* dst, int64_t blocks,
                 ops::UnpackRowFn unpack) {
  for (int r = 0; r < panel; ++r, dst += blocks) {
    unpack(dst, static_cast<const std::byte*>(rows[r]), blocks);
    rows[r] = dst;
  }
}

const void* const* rows_of(const PanelTask& task) {
  return task.packed == nullptr ? task.weights : nullptr;
}

}  // namespace

void linear_int8(ops::ExecContext& ctx, const ops::LinearArgs& a, const Int8Kernels& kernels) {
  const int index = quantized_index(a.w->dtype);
  const bool by_kernel = index < kNumUnpackedTypes;
  const Int8Kernel& kernel = by_kernel ? kernels.by_type[index] : kernels.unpacked;
  const ops::UnpackRowFn unpack = by_kernel ? nullptr : ops::unpack_row_fn(a.w->dtype);
  const int64_t blocks = a.w->cols / ops::kBlockValues;

  Arena shared(ctx.workspace, ctx.workspace_bytes);
  auto* x = shared.take<QuantizedBlock>(a.x.rows * blocks);
  ctx.pool->parallel_for(a.x.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      kernels.quantize(x + t * blocks, a.x.row<float>(t), blocks, kernel);
    }
  });

  // Chunks of whole blocks of the file and of about equal length.
  const DTypeTraits& traits = dtype_traits(a.w->dtype);
  const int64_t sub_blocks = traits.block_size / ops::kBlockValues;
  const int64_t file_blocks = blocks / sub_blocks;
  const int64_t most = chunk_blocks(kernel.parts) / sub_blocks;
  const int64_t num_chunks = (file_blocks + most - 1) / most;
  const int64_t chunk = (file_blocks + num_chunks - 1) / num_chunks;  // in blocks of the file
  const int lanes = packed_lanes(a.w->layout);
  const int64_t lane_stride = lanes * a.w->row_bytes();
  for_each_panel(ctx, a, kernels.panel, shared, [&](const PanelTask& task, Arena& arena) {
    const QuantizedBlock* rows = x + task.row * blocks;
    Int8Multiply product = {task.out,      task.out_stride, rows,   blocks,
                            task.num_rows, nullptr,         blocks, false};
    if (by_kernel && task.num_rows <= kernels.few_rows) {
      kernel.multiply_few(product, {rows_of(task), blocks, task.next, task.packed, lane_stride});
      return;
    }
    auto* panel = arena.take<std::byte>(chunk * sub_blocks * kernel.panel_block_bytes);
    auto* unpacked = by_kernel ? nullptr : arena.take<ops::KValues>(chunk * kernels.panel);
    product.panel = panel;
    for (int64_t begin = 0; begin < file_blocks; begin += chunk) {
      const int64_t count = std::min(chunk, file_blocks - begin);
      const int64_t begin_bytes = begin * traits.block_bytes;
      const void* weights[kMaxPanel];
      for (int r = 0; r < kernels.panel && task.packed == nullptr; ++r) {
        weights[r] = static_cast<const std::byte*>(task.weights[r]) + begin_bytes;
      }
      const std::byte* next =
          task.next == nullptr ? nullptr : task.next + begin_bytes * kernels.panel;
      if (!by_kernel) {
        unpack_rows(weights, kernels.panel, unpacked, count, unpack);
        next = nullptr;  // a kernel would take its size for that of what it reads
      }
      product.blocks = count * sub_blocks;
      product.x = rows + begin * sub_blocks;
      product.accumulate = begin > 0;
      const std::byte* packed =
          task.packed == nullptr ? nullptr : task.packed + begin_bytes * lanes;
      kernel.unpack(panel, {packed == nullptr ? weights : nullptr, product.blocks, next, packed,
                            lane_stride});
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
