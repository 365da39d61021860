// Mat: a non-owning 2-D view of activations in device memory: `rows` rows of `cols` values,
// `stride` values from one row to the next. Which dtypes an op takes is said at its args.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace octavo::ops {

struct Mat {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // in values

  Mat() = default;
  Mat(void* d, DType t, int64_t r, int64_t c) : Mat(d, t, r, c, c) {}
  Mat(void* d, DType t, int64_t r, int64_t c, int64_t s)
      : data(d), dtype(t), rows(r), cols(c), stride(s) {}

  // Row `i` as values of T; T must match the dtype (float: kF32, uint16_t: a 16-bit float).
  template <typename T>
  T* row(int64_t i) const {
    OCTAVO_DCHECK(i >= 0 && i < rows && sizeof(T) == dtype_traits(dtype).block_bytes);
    return static_cast<T*>(data) + i * stride;
  }

  // The first `r` rows.
  Mat top(int64_t r) const { return {data, dtype, r, cols, stride}; }

  // Rows [begin, begin + r).
  Mat row_range(int64_t begin, int64_t r) const {
    auto* bytes = static_cast<char*>(data) + dtype_bytes(dtype, begin * stride);
    return {bytes, dtype, r, cols, stride};
  }

  // Columns [begin, begin + c) of every row.
  Mat columns(int64_t begin, int64_t c) const {
    auto* bytes = static_cast<char*>(data) + dtype_bytes(dtype, begin);
    return {bytes, dtype, rows, c, stride};
  }
};

}  // namespace octavo::ops
