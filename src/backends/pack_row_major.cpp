#include "backends/pack_row_major.h"

#include "base/format.h"

namespace octavo::backends {

Result<ops::Weight> pack_row_major(const ops::Ops& ops, Device&, const Tensor& tensor) {
  const DTypeTraits& traits = dtype_traits(tensor.dtype);
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
    return data_loss(format("tensor '{}': a weight is a matrix, but the shape is {}", tensor.name,
                            shape_string(tensor.shape)));
  }
  if (ops.linear_by_dtype[static_cast<int>(tensor.dtype)] == nullptr) {
    return unsupported(
        format("tensor '{}': weights of type {} are not supported", tensor.name, traits.name));
  }
  if (tensor.shape[1] % traits.block_size != 0) {
    return data_loss(format("tensor '{}': rows of {} values are not whole blocks of {} ({})",
                            tensor.name, tensor.shape[1], traits.block_size, traits.name));
  }
  return ops::Weight{ops::PackedLayout::kRowMajor,
                     tensor.dtype,
                     tensor.shape[0],
                     tensor.shape[1],
                     tensor.data,
                     tensor.owner};
}

}  // namespace octavo::backends
