// Quantised matrices of 4 bits in groups, as pack_codes of the CUDA backend keeps them on GPUs
// whose kernels compute with them: rearranged (tile/int4_tiles.h), not decoded.
#pragma once

#include "ops/ops.h"

namespace octavo::backends::cuda {

// Whether codes of this form stay on the current device: kQ4_0 or kQ5_0 whose groups are known,
// with inputs that are not rounded.
bool keeps_int4(const ops::Weight& form);

// The weight without data.
ops::Weight measure_int4(const ops::Weight& form);

// Nothing where values of a group are further apart than 4 bits reach.
Result<std::optional<ops::Weight>> pack_int4(ops::PackContext& context, const Tensor& tensor,
                                             const ops::Weight& form);

}  // namespace octavo::backends::cuda
