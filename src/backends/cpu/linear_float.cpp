#include "backends/cpu/linear.h"
#include "backends/cpu/linear_panels.h"
#include "backends/cpu/pack_lanes.h"
#include "ops/decode_row.h"
#include "ops/k_blocks.h"
#include "tensor/float16.h"

namespace octavo::backends::cpu {
namespace {

// Values of k that are multiplied at a time: kMaxPanel * 256 floats are 32 KB, whole blocks of any
// type. They are unpacked in steps, between which the same part of the next panel is prefetched.
constexpr int64_t kChunk = ops::kKBlockValues;
constexpr int64_t kStep = 32;

FloatUnpack unpack_fn(const FloatKernels& kernels, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kernels.unpack_f32;
    case DType::kF16:
      return kernels.unpack_f16;
    case DType::kBF16:
      return kernels.unpack_bf16;
    case DType::kF8E4M3:  // whose scales are applied between decoding and unpacking
      return nullptr;
    default:
      break;
  }
  const int index = quantized_index(dtype);
  return index < kNumUnpackedTypes ? kernels.unpack_quantized[index] : nullptr;
}

// Types that the kernels cannot unpack: the values [begin, begin + count) of the rows are decoded
// one row after the other, then brought into a panel.
void decode_and_unpack(float* dst, const PanelTask& task, const PanelRows& rows, int64_t begin,
                       int64_t count, const ops::Weight& w, const FloatKernels& kernels,
                       Arena arena) {
  const ops::DecodeRowFn decode = ops::decode_row_fn(w.dtype);
  auto* values = arena.take<float>(count * kernels.panel);
  const void* decoded[kMaxPanel];
  for (int r = 0; r < kernels.panel; ++r) {
    decode(static_cast<const std::byte*>(rows.pointers[r]), values + r * count, count);
    ops::scale_values(w, task.weight_rows[r], begin, count, values + r * count);
    decoded[r] = values + r * count;
  }
  kernels.unpack_f32(dst, decoded, count);
}

// Values [begin, begin + count) of the panel's rows.
void unpack_rows(float* panel, const PanelTask& task, int64_t begin, int64_t count,
                 const ops::Weight& w, const FloatKernels& kernels, const Arena& arena) {
  const FloatUnpack unpack = unpack_fn(kernels, w.dtype);
  const int64_t step = std::max<int64_t>(kStep, dtype_traits(w.dtype).block_size);
  for (int64_t i = 0; i < count; i += step) {
    const int64_t values = std::min(step, count - i);
    const PanelRows rows(task, kernels.panel, dtype_bytes(w.dtype, begin + i),
                         dtype_bytes(w.dtype, values));
    float* dst = panel + i * kernels.panel;
    if (unpack != nullptr) {
      unpack(dst, rows.pointers, values);
    } else {
      decode_and_unpack(dst, task, rows, begin + i, values, w, kernels, arena);
    }
  }
}

// The same of packed rows: float32 is read where it lies.
void unpack_packed(FloatMultiply& product, float* panel, const PanelTask& task, int64_t begin,
                   const ops::Weight& w, const FloatKernels& kernels) {
  const int64_t lanes = packed_lanes(w.layout);
  const std::byte* src = task.packed + lanes * dtype_bytes(w.dtype, begin);
  if (w.dtype == DType::kF32) {
    product.panel = reinterpret_cast<const float*>(src);
    product.panel_stride = lanes;
    product.lane_stride = lanes * w.cols;
    return;
  }
  const auto unpack = w.dtype == DType::kF16 ? kernels.unpack_lanes_f16 : kernels.unpack_lanes_bf16;
  unpack(panel, src, lanes * w.row_bytes(), product.k);
}

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
  const PanelJob job{a};
  for_each_panel(
      ctx, {&job, 1}, kernels.panel, shared, [&](size_t, const PanelTask& task, Arena& arena) {
        auto* panel = arena.take<float>(kChunk * kernels.panel);
        for (int64_t k = 0; k < x.cols; k += kChunk) {
          const int64_t count = std::min(kChunk, x.cols - k);
          FloatMultiply product = {task.out,      task.out_stride, x.row<float>(task.row) + k,
                                   x.stride,      task.num_rows,   panel,
                                   kernels.panel, count,           k > 0};
          if (task.packed == nullptr) {
            unpack_rows(panel, task, k, count, *a.w, kernels, arena);
          } else {
            unpack_packed(product, panel, task, k, *a.w, kernels);
          }
          kernels.multiply(product);
        }
      });
}

}  // namespace octavo::backends::cpu
