#include "quant/quantized_matrix.h"

#include <cstring>

#include "base/check.h"
#include "ops/decode_row.h"

namespace octavo::quant {
namespace {

// Sets a matrix of this shape and type in memory of its own, and returns that.
std::byte* allocate(QuantizedMatrix& matrix, DType dtype, int64_t rows, int64_t cols) {
  auto bytes = std::make_shared<std::vector<std::byte>>(rows * dtype_bytes(dtype, cols));
  std::byte* const data = bytes->data();
  matrix.tensor = {matrix.tensor.name, dtype, {rows, cols}, data, std::move(bytes)};
  return data;
}

int64_t scales_per_row(const QuantizedMatrix& matrix) {
  return static_cast<int64_t>(matrix.scales.size()) / matrix.tensor.shape[0];
}

}  // namespace

QuantizedMatrix slice_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t rows) {
  QuantizedMatrix result = matrix;
  const int64_t per_row = scales_per_row(matrix);
  result.tensor.shape[0] = rows;
  if (matrix.tensor.data != nullptr) {
    result.tensor.data += begin * dtype_bytes(matrix.tensor.dtype, matrix.tensor.shape[1]);
  }
  const auto first = matrix.scales.begin() + begin * per_row;
  result.scales.assign(first, first + rows * per_row);
  return result;
}

QuantizedMatrix gather_rows(const QuantizedMatrix& matrix, std::span<const int64_t> rows) {
  QuantizedMatrix result = matrix;
  const int64_t cols = matrix.tensor.shape[1];
  const int64_t row_bytes = dtype_bytes(matrix.tensor.dtype, cols);
  const int64_t per_row = scales_per_row(matrix);
  std::byte* dst = allocate(result, matrix.tensor.dtype, static_cast<int64_t>(rows.size()), cols);
  result.scales.clear();
  for (const int64_t row : rows) {
    std::memcpy(dst, matrix.tensor.data + row * row_bytes, row_bytes);
    dst += row_bytes;
    const auto first = matrix.scales.begin() + row * per_row;
    result.scales.insert(result.scales.end(), first, first + per_row);
  }
  return result;
}

QuantizedMatrix decode(const QuantizedMatrix& matrix) {
  const int64_t rows = matrix.tensor.shape[0];
  const int64_t cols = matrix.tensor.shape[1];
  const ops::DecodeRowFn decode_row = ops::decode_row_fn(matrix.tensor.dtype);
  OCTAVO_CHECK(decode_row != nullptr);
  ops::Weight scaled;
  scaled.cols = cols;
  scaled.scales = matrix.scales.empty() ? nullptr : matrix.scales.data();
  scaled.scale_block = matrix.scale_block;
  QuantizedMatrix result = matrix;
  auto* dst = reinterpret_cast<float*>(allocate(result, DType::kF32, rows, cols));
  for (int64_t row = 0; row < rows; ++row, dst += cols) {
    decode_row(matrix.tensor.data + row * dtype_bytes(matrix.tensor.dtype, cols), dst, cols);
    ops::scale_values(scaled, row, 0, cols, dst);
  }
  result.scales.clear();
  result.scale_block = 0;
  return result;
}

}  // namespace octavo::quant
