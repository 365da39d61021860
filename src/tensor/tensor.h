// Tensor: dtype, shape and host memory, contiguous and row-major. A view where `owner` keeps a
// mapped file alive, an owner where it holds the allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace octavo {

struct Tensor {
  std::string name;  // for messages; may be empty
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;  // keeps `data` valid

  int64_t count() const { return shape_count(shape); }
  int64_t size_bytes() const { return dtype_bytes(dtype, count()); }
};

}  // namespace octavo
