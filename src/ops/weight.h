// Weight: a matrix [rows, cols] = [out_features, in_features] in the layout that the backend chose
// for it. Only the backend that packed it knows how to read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/dtype.h"

namespace octavo::ops {

enum class PackedLayout : uint8_t {
  kRowMajor,  // as in the file: `rows` rows, each a run of values or blocks; no gaps
  kLanes8,    // of the CPU backend: 8 or 16 rows beside one another (backends/cpu/pack_lanes.h)
  kLanes16,
};

struct Weight {
  PackedLayout layout = PackedLayout::kRowMajor;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;    // device memory
  std::shared_ptr<const void> owner;  // keeps `data` valid: the mapped file or a buffer

  int64_t row_bytes() const { return dtype_bytes(dtype, cols); }
  int64_t size_bytes() const { return rows * row_bytes(); }
  const std::byte* row(int64_t i) const { return data + i * row_bytes(); }  // of kRowMajor
};

}  // namespace octavo::ops
