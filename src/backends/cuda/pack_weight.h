// pack_weight of the CUDA backend: a matrix in device memory, row-major, as bfloat16 whatever its
// type was; but codes of E4M3 and of 4 bits that kernels compute with stay codes.
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

// pack_codes: E4M3 with a scale for each row and inputs rounded to E4M3 by row, on GPUs that stream
// such matrices, of a shape that cuBLASLt takes, whose kernels round the input; 4 bits in groups
// there too (pack_int4.h).
Result<std::optional<ops::Weight>> pack_codes(const ops::Ops&, ops::PackContext& context,
                                              const Tensor& tensor, const ops::Weight& form);
Result<std::optional<ops::Weight>> measure_codes(const ops::Ops&, ops::PackContext& context,
                                                 const Tensor& tensor, const ops::Weight& form);

}  // namespace octavo::backends::cuda
