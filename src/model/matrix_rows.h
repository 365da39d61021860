// Matrices of a file in the order that a model wants: rows of several heads, parts of a stack, and
// matrices that lie transposed.
#pragma once

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace octavo::model {

// How the rows of q and k lie in the file, by head: halves [0, d/2), [d/2, d) that rotate against
// each other, or adjacent pairs (2i, 2i + 1). Loading always yields halves.
struct RowOrder {
  bool adjacent_pairs = false;
  int64_t head_dim = 0;
};

// Where row `row` of the result comes from in the file.
int64_t source_row(int64_t row, const RowOrder& order);
std::vector<int64_t> source_rows_of(int64_t rows, const RowOrder& order);

// A matrix in memory of its own.
struct OwnedMatrix {
  OwnedMatrix(const Tensor& like, DType dtype, int64_t rows, int64_t cols);

  std::shared_ptr<std::vector<std::byte>> bytes;
  Tensor tensor;
};

// Rows [begin, begin + rows) of a matrix or of a stack of them, `cols` values each.
Tensor slice_rows(const Tensor& tensor, int64_t begin, int64_t rows, int64_t cols);

// Whether transposed_columns takes values of this type: plain ones of 1, 2 or 4 bytes.
bool can_transpose(DType dtype);

// Columns [begin, begin + rows) of the `cols` rows of `stride` values at `src`, as a matrix [rows,
// cols].
Tensor transposed_columns(const Tensor& tensor, const std::byte* src, int64_t begin, int64_t rows,
                          int64_t cols, int64_t stride);

}  // namespace octavo::model
