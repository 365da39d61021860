// What a loader does with the rows of a quantised matrix.
#pragma once

#include <span>

#include "quant/scheme.h"

namespace octavo::quant {

// Rows [begin, begin + rows): views of the same codes.
QuantizedMatrix slice_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t rows);

// The given rows, in this order, in memory of their own.
QuantizedMatrix gather_rows(const QuantizedMatrix& matrix, std::span<const int64_t> rows);

// The values as kF32 without scales; order and rounding of the input stay.
QuantizedMatrix decode(const QuantizedMatrix& matrix);

}  // namespace octavo::quant
