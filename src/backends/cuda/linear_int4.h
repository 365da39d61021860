// Products with matrices of 4-bit codes (pack_int4.h) on Hopper: up to 64 tokens by the kernel of
// few tokens; for more, parts of the matrix become bfloat16, one after the other, and cuBLASLt
// multiplies.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace octavo::backends::cuda {

// Of a part in bfloat16. With 32 MB, which the L2 cache holds until they are multiplied, gate and
// up of 512 tokens take as long, down_proj 17 % longer, since launches are more (H200).
inline constexpr int64_t kDecodedBytes = int64_t{128} << 20;

// Rows [first, first + count) in bfloat16, without gaps; `first` is a multiple of 8. Rounded from
// (code - zero) * scale in float32, as on the host.
void decode_int4(void* out, const ops::Weight& w, int64_t first, int64_t count,
                 cudaStream_t stream);

// x is bfloat16, rows aligned to 16 bytes.
void linear_int4(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate);

}  // namespace octavo::backends::cuda
