// Tensor maps: what TMA needs to know of a tensor in device memory. Made on the host in about a
// microsecond, passed to a kernel by value as `const __grid_constant__ CUtensorMap`.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "octavo/status.h"

namespace octavo::backends::cuda {

// A tensor of four dimensions, innermost first, and the box that one copy brings. Of bfloat16 the
// box's innermost dimension is 64 elements, swizzled by 128 bytes (tile/swizzle.h); of bytes it
// lies in shared memory as it is.
struct TensorMapShape {
  const void* data = nullptr;                  // 16-byte aligned
  bool bytes = false;                          // else bfloat16
  std::array<uint64_t, 4> sizes = {};          // elements; 1 where there is nothing
  std::array<uint64_t, 3> strides_bytes = {};  // of dimensions 1..3, multiples of 16
  std::array<uint32_t, 4> box = {};            // elements, at most 256 each
};

// kUnsupported where there is no driver, kInvalidArgument where the driver refuses the shape.
Result<CUtensorMap> make_tensor_map(const TensorMapShape& shape);

}  // namespace octavo::backends::cuda
