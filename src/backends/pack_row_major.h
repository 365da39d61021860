// pack_weight of the host backends: a view of the tensor as it lies in the file; only rows in
// another order are copied.
#pragma once

#include <span>

#include "ops/ops.h"

namespace octavo::backends {

// The tensor as it lies there. Errors, naming the tensor: not two-dimensional, rows that are not
// whole blocks, or a dtype for which `ops` has no linear.
Result<ops::Weight> view_rows(const ops::Ops& ops, const Tensor& tensor);

Result<ops::Weight> pack_row_major(const ops::Ops& ops, ops::PackContext& ctx, const Tensor& tensor,
                                   std::span<const int64_t> source_rows);

}  // namespace octavo::backends
