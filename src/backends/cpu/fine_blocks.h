// The part of a row's activations that int8 would lose most of: where a few values are far above
// the others, as after most norms, one block makes 40 to 70 % of the square of the rounding's
// error. One block in 16 gets codes of 15 bits, which cost as much again to multiply.
#pragma once

#include "backends/cpu/micro_kernels.h"

namespace octavo::backends::cpu {

// How many of a row of `blocks` get them.
int64_t num_fine_blocks(int64_t blocks);

// Of a row that was rounded from x for `kernel` the blocks with the largest values are rounded
// again, `count` of them or fewer; their upper codes lie in the `count` blocks behind the row.
void refine_largest(QuantizedBlock* row, const float* x, int64_t blocks, int64_t count,
                    const Int8Kernel& kernel);

}  // namespace octavo::backends::cpu
