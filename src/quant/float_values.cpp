#include "quant/float_values.h"

#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "ops/decode_row.h"

namespace octavo::quant {

Result<std::vector<float>> take_floats(TensorSource& source, std::string_view name,
                                       const Shape& shape) {
  const Tensor tensor = OCTAVO_TRY(source.take(name, shape));
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16) {
    return data_loss(format("{}: tensor '{}' is {}, which must be a plain float type",
                            source.path(), name, dtype_traits(tensor.dtype).name));
  }
  std::vector<float> values;
  if (source.measures()) return values;
  values.resize(tensor.count());
  ops::decode_row_fn(tensor.dtype)(tensor.data, values.data(), tensor.count());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return data_loss(format("{}: tensor '{}' holds {} at {}", source.path(), name, values[i], i));
  }
  return values;
}

Result<float> take_positive(TensorSource& source, std::string_view name) {
  const formats::TensorInfo* info = source.find(name);
  const bool single = info != nullptr && shape_count(info->shape) == 1;
  const Shape shape = single ? info->shape : Shape{1};
  const std::vector<float> values = OCTAVO_TRY(take_floats(source, name, shape));
  const float value = values.empty() ? 1.0f : values[0];
  if (value > 0) return value;
  return data_loss(
      format("{}: tensor '{}' holds {}, which must be positive", source.path(), name, value));
}

Status wrong_type(const TensorSource& source, const Tensor& tensor, DType expected) {
  return data_loss(format("{}: tensor '{}' is {}, which must be {}", source.path(), tensor.name,
                          dtype_traits(tensor.dtype).name, dtype_traits(expected).name));
}

}  // namespace octavo::quant
