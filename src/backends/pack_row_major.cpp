#include "backends/pack_row_major.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tensor/device.h"

namespace octavo::backends {

Result<ops::Weight> view_rows(const ops::Ops& ops, const Tensor& tensor) {
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

Result<ops::Weight> pack_row_major(const ops::Ops& ops, ops::PackContext& ctx, const Tensor& tensor,
                                   std::span<const int64_t> source_rows) {
  auto view = view_rows(ops, tensor);
  if (!view.ok() || source_rows.empty()) return view;
  ops::Weight weight = std::move(view).value();
  OCTAVO_CHECK(static_cast<int64_t>(source_rows.size()) == weight.rows);
  const int64_t row_bytes = weight.row_bytes();
  Buffer copy =
      OCTAVO_TRY(ctx.device.allocate(weight.rows * row_bytes, format("tensor '{}'", tensor.name)));
  for (int64_t row = 0; row < weight.rows; ++row) {
    std::memcpy(copy.data.get() + row * row_bytes, weight.row(source_rows[row]), row_bytes);
  }
  weight.data = copy.data.get();
  weight.owner = std::move(copy.data);
  return weight;
}

}  // namespace octavo::backends
