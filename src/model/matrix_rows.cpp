#include "model/matrix_rows.h"

#include <algorithm>
#include <cstring>

namespace octavo::model {
namespace {

// dst[c, r] = src[r, c], in squares that stay in the cache; `T` has a value's size.
template <typename T>
void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t cols,
               int64_t src_stride) {
  constexpr int64_t kSquare = 32;
  auto* dst = reinterpret_cast<T*>(to);
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    for (int64_t c0 = 0; c0 < cols; c0 += kSquare) {
      for (int64_t c = c0; c < std::min(c0 + kSquare, cols); ++c) {
        for (int64_t r = r0; r < std::min(r0 + kSquare, rows); ++r) {
          // A tensor of a .safetensors file may begin at any byte.
          std::memcpy(dst + c * rows + r, from + (r * src_stride + c) * sizeof(T), sizeof(T));
        }
      }
    }
  }
}

}  // namespace

// Row p * (d/2) + i of a head lies at 2i + p.
int64_t source_row(int64_t row, const RowOrder& order) {
  if (!order.adjacent_pairs) return row;
  const int64_t half = order.head_dim / 2;
  const int64_t in_head = row % order.head_dim;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

std::vector<int64_t> source_rows_of(int64_t rows, const RowOrder& order) {
  std::vector<int64_t> source_rows(rows);
  for (int64_t row = 0; row < rows; ++row) source_rows[row] = source_row(row, order);
  return source_rows;
}

OwnedMatrix::OwnedMatrix(const Tensor& like, DType dtype, int64_t rows, int64_t cols)
    : bytes(std::make_shared<std::vector<std::byte>>(rows * dtype_bytes(dtype, cols))),
      tensor{like.name, dtype, {rows, cols}, bytes->data(), bytes} {}

Tensor slice_rows(const Tensor& tensor, int64_t begin, int64_t rows, int64_t cols) {
  const int64_t row_bytes = dtype_bytes(tensor.dtype, cols);
  return {tensor.name, tensor.dtype, {rows, cols}, tensor.data + begin * row_bytes, tensor.owner};
}

bool can_transpose(DType dtype) {
  const DTypeTraits& traits = dtype_traits(dtype);
  return !traits.quantized && traits.block_bytes <= 4;
}

Tensor transposed_columns(const Tensor& tensor, const std::byte* src, int64_t begin, int64_t rows,
                          int64_t cols, int64_t stride) {
  const OwnedMatrix result(tensor, tensor.dtype, rows, cols);
  std::byte* dst = result.bytes->data();
  const int64_t value_bytes = dtype_bytes(tensor.dtype, 1);
  src += begin * value_bytes;
  if (value_bytes == 4) {
    transpose<uint32_t>(dst, src, cols, rows, stride);
  } else if (value_bytes == 2) {
    transpose<uint16_t>(dst, src, cols, rows, stride);
  } else {
    transpose<uint8_t>(dst, src, cols, rows, stride);
  }
  return result.tensor;
}

}  // namespace octavo::model
