#include "backends/cpu/fine_blocks.h"
#include "backends/cpu/int8_matrix.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/pack_lanes.h"
#include "backends/cpu/row_ops.h"
#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

// Blocks of k that are unpacked at a time: 24 blocks of a 32-row panel are 24 KB of codes and 6 KB
// of scales, which stay in L1 beside the activations that stream past. With two scales for a block
// it is 16, 24 KB in all. Both are whole blocks of any type.
constexpr int64_t chunk_blocks(int parts) {
  return parts == 1 ? 24 : 16;
}

// Values below which a thread is not woken to round them: about a microsecond's work.
constexpr int64_t kMinQuantizedValues = 2048;

// Times that packed weights are read by few rows each before it pays to unpack them for all rows:
// 2048 columns from memory, Zen 4, one thread, Gop/s in passes and unpacked: at 9 rows Q8_0 236 and
// 157, Q4_K 241 and 199; at 32 rows 315 and 265, 285 and 283; at 64 330 and 298, 288 and 305.
constexpr int64_t kMostPasses = 4;

// How often weights are read by few rows, evenly many; 0: they are unpacked.
int64_t few_passes(int64_t rows, int64_t few_rows, bool packed) {
  const int64_t most = few_rows * (packed ? kMostPasses : 1);
  if (few_rows == 0 || rows > most) return 0;
  return (rows + few_rows - 1) / few_rows;
}

bool unpacked_by_kernel(DType dtype) {
  return quantized_index(dtype) < kNumUnpackedTypes;
}

// Types that the kernels cannot unpack: the rows are unpacked one by one.
void unpack_rows(const void* (&rows)[kMaxPanel], int panel, ops::KValues* dst, int64_t blocks,
                 ops::UnpackRowFn unpack) {
  for (int r = 0; r < panel; ++r, dst += blocks) {
    unpack(dst, static_cast<const std::byte*>(rows[r]), blocks);
    rows[r] = dst;
  }
}

}  // namespace

Int8Matrix::Int8Matrix(const ops::Weight& w, const Int8Kernels& kernels, bool outliers)
    : w_(w),
      kernels_(kernels),
      by_kernel_(unpacked_by_kernel(w.dtype)),
      kernel_(by_kernel_ ? kernels.by_type[quantized_index(w.dtype)] : kernels.unpacked),
      unpack_row_(by_kernel_ ? nullptr : ops::unpack_row_fn(w.dtype)),
      blocks_(w.cols / ops::kBlockValues),
      fine_blocks_(outliers ? num_fine_blocks(blocks_) : 0) {
  // Chunks of whole blocks of the file and of about equal length.
  const int64_t sub_blocks = dtype_traits(w.dtype).block_size / ops::kBlockValues;
  const int64_t file_blocks = blocks_ / sub_blocks;
  const int64_t most = chunk_blocks(kernel_.parts) / sub_blocks;
  const int64_t num_chunks = (file_blocks + most - 1) / most;
  chunk_ = (file_blocks + num_chunks - 1) / num_chunks;
}

void Int8Matrix::multiply(const PanelTask& task, const QuantizedBlock* x, Arena& arena) const {
  const QuantizedBlock* rows = x + task.row * x_stride();
  const int lanes = packed_lanes(w_.layout);
  const int64_t lane_stride = lanes * w_.row_bytes();
  const bool packed = task.packed != nullptr;
  Int8Multiply product = {task.out,      task.out_stride, rows,    x_stride(),
                          task.num_rows, nullptr,         blocks_, false};
  const int64_t passes = by_kernel_ ? few_passes(task.num_rows, kernels_.few_rows, packed) : 0;
  for (int64_t i = 0; i < passes; ++i) {
    const int64_t begin = task.num_rows * i / passes;
    product.out = task.out + begin * task.out_stride;
    product.x = rows + begin * x_stride();
    product.rows = task.num_rows * (i + 1) / passes - begin;
    kernel_.multiply_few(
        product, {packed ? nullptr : task.weights, blocks_, task.next, task.packed, lane_stride});
  }
  if (passes > 0) return;
  const DTypeTraits& traits = dtype_traits(w_.dtype);
  const int64_t sub_blocks = traits.block_size / ops::kBlockValues;
  const int64_t file_blocks = blocks_ / sub_blocks;
  auto* panel = arena.take<std::byte>(chunk_ * sub_blocks * kernel_.panel_block_bytes);
  auto* unpacked = by_kernel_ ? nullptr : arena.take<ops::KValues>(chunk_ * kernels_.panel);
  product.panel = panel;
  for (int64_t begin = 0; begin < file_blocks; begin += chunk_) {
    const int64_t count = std::min(chunk_, file_blocks - begin);
    const int64_t begin_bytes = begin * traits.block_bytes;
    const void* weights[kMaxPanel];
    for (int r = 0; r < kernels_.panel && !packed; ++r) {
      weights[r] = static_cast<const std::byte*>(task.weights[r]) + begin_bytes;
    }
    const std::byte* next =
        task.next == nullptr ? nullptr : task.next + begin_bytes * kernels_.panel;
    if (!by_kernel_) {
      unpack_rows(weights, kernels_.panel, unpacked, count, unpack_row_);
      next = nullptr;  // a kernel would take its size for that of what it reads
    }
    product.blocks = count * sub_blocks;
    product.x = rows + begin * sub_blocks;
    product.accumulate = begin > 0;
    const std::byte* lanes_begin = packed ? task.packed + begin_bytes * lanes : nullptr;
    kernel_.unpack(panel,
                   {packed ? nullptr : weights, product.blocks, next, lanes_begin, lane_stride});
    kernel_.multiply(product);
  }
}

QuantizedBlock* quantize_input(ops::ExecContext& ctx, const ops::Mat& x, const InputNorm& norm,
                               const Int8Matrix& matrix, const Int8Kernels& kernels,
                               Arena& shared) {
  auto* result = shared.take<QuantizedBlock>(x.rows * matrix.x_stride());
  const int64_t grain = std::max<int64_t>(1, kMinQuantizedValues / x.cols);
  ctx.pool->parallel_for(x.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* row = x.row<float>(t);
      if (norm.weight != nullptr) {
        float* normed = norm.normed.row<float>(t);
        rms_norm_row(normed, row, norm.weight, norm.eps, x.cols);
        row = normed;
      }
      QuantizedBlock* blocks = result + t * matrix.x_stride();
      kernels.quantize(blocks, row, matrix.blocks(), matrix.kernel());
      refine_largest(blocks, row, matrix.blocks(), matrix.fine_blocks(), matrix.kernel());
    }
  });
  return result;
}

void linear_int8(ops::ExecContext& ctx, const ops::LinearArgs& a, const Int8Kernels& kernels) {
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const Int8Matrix matrix(*a.w, kernels, a.outliers);
  const QuantizedBlock* x = quantize_input(ctx, a.x, {}, matrix, kernels, shared);
  const PanelJob job{a};
  for_each_panel(
      ctx, {&job, 1}, kernels.panel, shared,
      [&](size_t, const PanelTask& task, Arena& arena) { matrix.multiply(task, x, arena); });
}

int64_t linear_workspace_bytes(int64_t rows, int64_t cols, int num_threads) {
  // Rounded activations, float32 rounded to bfloat16 or int8 twice, for the fused regions.
  const int64_t blocks = (cols + ops::kBlockValues - 1) / ops::kBlockValues;
  const int64_t x_stride = blocks + num_fine_blocks(blocks);
  const auto row_bytes = std::max(round_up(cols, 2) * static_cast<int64_t>(sizeof(float)),
                                  2 * x_stride * static_cast<int64_t>(sizeof(QuantizedBlock)));
  return 2 * kCacheLine + rows * row_bytes + num_threads * kLinearThreadBytes;
}

}  // namespace octavo::backends::cpu
