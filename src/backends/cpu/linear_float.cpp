#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"
#include "ops/decode_row.h"
#include "tensor/float16.h"

namespace octavo::backends::cpu {
namespace {

// Values of k that are unpacked at a time: kMaxPanel * 256 floats are 32 KB.
constexpr int64_t kChunk = 256;

// Weight rows as float, one panel's chunk.
class PanelSource {
 public:
  PanelSource(const FloatKernels& kernels, DType dtype, Arena& arena)
      : kernels_(kernels), dtype_(dtype), panel_(arena.take<float>(kChunk * kernels.panel)) {
    if (dtype_traits(dtype).quantized) decoded_ = arena.take<float>(kChunk * kernels.panel);
  }

  // Values [begin, begin + count) of every row, k-major.
  const float* unpack(const void* const* weights, int64_t begin, int64_t count) {
    const void* rows[kMaxPanel];
    for (int r = 0; r < kernels_.panel; ++r) {
      const auto* src = static_cast<const std::byte*>(weights[r]) + dtype_bytes(dtype_, begin);
      rows[r] = src;
      if (decoded_ != nullptr) {
        ops::decode_row_fn(dtype_)(src, decoded_ + r * kChunk, count);
        rows[r] = decoded_ + r * kChunk;
      }
    }
    if (dtype_ == DType::kF16) {
      kernels_.unpack_f16(panel_, rows, count);
    } else if (dtype_ == DType::kBF16) {
      kernels_.unpack_bf16(panel_, rows, count);
    } else {
      kernels_.unpack_f32(panel_, rows, count);
    }
    return panel_;
  }

 private:
  const FloatKernels& kernels_;
  DType dtype_;
  float* panel_;
  float* decoded_ = nullptr;
};

ops::Mat rounded_to_bf16(ops::ExecContext& ctx, const ops::Mat& x, Arena& arena) {
  ops::Mat rounded(arena.take<float>(x.rows * x.cols), DType::kF32, x.rows, x.cols);
  ctx.pool->parallel_for(x.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < x.cols; ++i) {
        rounded.row<float>(t)[i] = bf16_to_float(float_to_bf16(x.row<float>(t)[i]));
      }
    }
  });
  return rounded;
}

}  // namespace

void linear_float(ops::ExecContext& ctx, const ops::LinearArgs& a, const FloatKernels& kernels,
                  bool round_x) {
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  const ops::Mat x = round_x ? rounded_to_bf16(ctx, a.x, shared) : a.x;
  for_each_panel(ctx, a, kernels.panel, shared, [&](const PanelTask& task, Arena& arena) {
    PanelSource source(kernels, a.w->dtype, arena);
    for (int64_t k = 0; k < x.cols; k += kChunk) {
      const int64_t count = std::min(kChunk, x.cols - k);
      const float* panel = source.unpack(task.weights, k, count);
      kernels.multiply({task.out, task.out_stride, x.row<float>(task.row) + k, x.stride,
                        task.num_rows, panel, kernels.panel, count, k > 0});
    }
  });
}

}  // namespace octavo::backends::cpu
