#include "backends/cuda/pack_weight.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/pack_int4.h"
#include "base/check.h"
#include "base/format.h"
#include "base/thread_pool.h"
#include "ops/decode_row.h"
#include "tensor/device.h"
#include "tensor/float16.h"

namespace octavo::backends::cuda {
namespace {

// Host memory for decoded values on their way: large enough to copy at full speed.
constexpr int64_t kPieceValues = 8 << 20;

using SourceRows = std::span<const int64_t>;

// Rows first .. end - 1 of the result.
void decode_rows(const Tensor& tensor, SourceRows source_rows, int64_t first, int64_t end,
                 uint16_t* out) {
  const int64_t cols = tensor.shape[1];
  const int64_t row_bytes = dtype_bytes(tensor.dtype, cols);
  const ops::DecodeRowFn decode = ops::decode_row_fn(tensor.dtype);
  std::vector<float> values(static_cast<size_t>(cols));
  for (int64_t row = first; row < end; ++row) {
    const int64_t source = source_rows.empty() ? row : source_rows[static_cast<size_t>(row)];
    decode(tensor.data + source * row_bytes, values.data(), cols);
    for (const float value : values) *out++ = float_to_bf16(value);
  }
}

void upload_decoded(ops::PackContext& context, const Tensor& tensor, SourceRows source_rows,
                    std::byte* to) {
  const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  const int64_t rows_each = std::clamp<int64_t>(kPieceValues / cols, 1, rows);
  std::vector<uint16_t> piece(static_cast<size_t>(rows_each * cols));
  for (int64_t first = 0; first < rows; first += rows_each) {
    const int64_t count = std::min(rows_each, rows - first);
    auto decode = [&](int64_t begin, int64_t end, int) {
      decode_rows(tensor, source_rows, first + begin, first + end, piece.data() + begin * cols);
    };
    if (context.pool != nullptr) {
      context.pool->parallel_for(count, 1, decode);
    } else {
      decode(0, count, 0);
    }
    context.device.copy_to_device(to + dtype_bytes(DType::kBF16, first * cols), piece.data(),
                                  dtype_bytes(DType::kBF16, count * cols));
  }
}

}  // namespace

Result<ops::Weight> measure_weight(const ops::Ops&, ops::PackContext&, const Tensor& tensor,
                                   SourceRows) {
  const DTypeTraits& traits = dtype_traits(tensor.dtype);
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
    return data_loss(format("tensor '{}': a weight is a matrix, but the shape is {}", tensor.name,
                            shape_string(tensor.shape)));
  }
  if (ops::decode_row_fn(tensor.dtype) == nullptr) {
    return unsupported(
        format("tensor '{}': weights of type {} are not supported", tensor.name, traits.name));
  }
  if (tensor.shape[1] % traits.block_size != 0) {
    return data_loss(format("tensor '{}': rows of {} values are not whole blocks of {} ({})",
                            tensor.name, tensor.shape[1], traits.block_size, traits.name));
  }
  if (tensor.shape[0] > INT32_MAX || tensor.shape[1] > INT32_MAX) {
    return unsupported(format("tensor '{}': the shape {} is too large for a GPU", tensor.name,
                              shape_string(tensor.shape)));
  }
  ops::Weight weight;
  weight.dtype = DType::kBF16;
  weight.rows = tensor.shape[0];
  weight.cols = tensor.shape[1];
  return weight;
}

Result<ops::Weight> pack_weight(const ops::Ops& ops, ops::PackContext& context,
                                const Tensor& tensor, SourceRows source_rows) {
  ops::Weight weight = OCTAVO_TRY(measure_weight(ops, context, tensor, source_rows));
  const Buffer buffer = OCTAVO_TRY(context.device.allocate(weight.size_bytes(), tensor.name));
  if (tensor.dtype == DType::kBF16 && source_rows.empty()) {
    context.device.copy_to_device(buffer.data.get(), tensor.data, buffer.size_bytes);
  } else {
    upload_decoded(context, tensor, source_rows, buffer.data.get());
  }
  weight.data = buffer.data.get();
  weight.owner = buffer.data;
  return weight;
}

Result<std::optional<ops::Weight>> measure_codes(const ops::Ops& ops, ops::PackContext& context,
                                                 const Tensor& tensor, const ops::Weight& form) {
  if (keeps_int4(form)) {
    OCTAVO_TRY(measure_weight(ops, context, tensor, {}));
    return std::optional(measure_int4(form));
  }
  const ops::InputForm& input = form.input;
  const bool rounded =
      input.order == nullptr &&
      (input.rounding == ops::InputRounding::kStaticE4M3 ||
       (input.rounding == ops::InputRounding::kDynamicE4M3 && input.group >= form.cols));
  if (form.dtype != DType::kF8E4M3 || form.scale_block != form.cols || !rounded ||
      form.rows % 16 != 0 || !streams_e4m3(form.cols)) {
    return std::optional<ops::Weight>();
  }
  ops::Weight weight = OCTAVO_TRY(measure_weight(ops, context, tensor, {}));
  weight.dtype = DType::kF8E4M3;
  weight.input = input;
  weight.input.by_kernel = true;
  return std::optional(std::move(weight));
}

Result<std::optional<ops::Weight>> pack_codes(const ops::Ops& ops, ops::PackContext& context,
                                              const Tensor& tensor, const ops::Weight& form) {
  std::optional<ops::Weight> weight = OCTAVO_TRY(measure_codes(ops, context, tensor, form));
  if (!weight.has_value()) return weight;
  if (weight->layout == ops::PackedLayout::kInt4Tiles) return pack_int4(context, tensor, form);
  const Buffer buffer = OCTAVO_TRY(context.device.allocate(weight->size_bytes(), tensor.name));
  context.device.copy_to_device(buffer.data.get(), tensor.data, buffer.size_bytes);
  weight->data = buffer.data.get();
  weight->owner = buffer.data;
  return weight;
}

}  // namespace octavo::backends::cuda
