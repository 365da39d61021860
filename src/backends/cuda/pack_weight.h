// pack_weight of the CUDA backend: a matrix in device memory as bfloat16, row-major, whatever its
// type was.
#pragma once

#include "ops/ops.h"

namespace octavo::backends::cuda {

// Errors, naming the tensor: not two-dimensional, rows that are not whole blocks, a dtype that no
// weight may have, or no memory.
Result<ops::Weight> pack_weight(const ops::Ops&, ops::PackContext& context, const Tensor& tensor,
                                std::span<const int64_t> source_rows);

// The same checks and sizes, without data and without memory.
Result<ops::Weight> measure_weight(const ops::Ops&, ops::PackContext& context, const Tensor& tensor,
                                   std::span<const int64_t> source_rows);

}  // namespace octavo::backends::cuda
