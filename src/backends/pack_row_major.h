// pack_weight of the host backends: a view of the tensor as it lies in the file, nothing is copied.
#pragma once

#include "ops/ops.h"

namespace octavo::backends {

// Errors, naming the tensor: not two-dimensional, rows that are not whole blocks, or a dtype for
// which `ops` has no linear.
Result<ops::Weight> pack_row_major(const ops::Ops& ops, Device&, const Tensor& tensor);

}  // namespace octavo::backends
