// Small tensors of plain floats, such as scales, as checked host values. For the readers of schemes
// alone.
#pragma once

#include <string_view>
#include <vector>

#include "quant/scheme.h"

namespace octavo::quant {

// The values of `name` [shape]: F32, F16 or BF16, all finite. Empty where the source measures.
Result<std::vector<float>> take_floats(TensorSource& source, std::string_view name,
                                       const Shape& shape);

// A tensor of a single value, which is positive, whatever its rank. 1 where the source measures.
Result<float> take_positive(TensorSource& source, std::string_view name);

// The error for a tensor of a type that its scheme does not have.
Status wrong_type(const TensorSource& source, const Tensor& tensor, DType expected);

}  // namespace octavo::quant
