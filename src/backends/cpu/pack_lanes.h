// Weights of 8 or 16 rows beside one another, as the int8 kernels read them: each block of the file
// of those rows together, in it first the bytes before the 32-bit words (packed_lead), then word by
// word, then the bytes after them; of each all rows in turn. So a kernel's vectors are loaded
// straight, in one stream, where rows have to be transposed from as many streams as there are rows.
// The size is that of the file's blocks; rows are padded with zero blocks to whole panels.
#pragma once

#include <string_view>

#include "ops/ops.h"

namespace octavo::backends::cpu {

inline int packed_lanes(ops::PackedLayout layout) {
  if (layout == ops::PackedLayout::kLanes16) return 16;
  return layout == ops::PackedLayout::kLanes8 ? 8 : 0;
}

// pack_weight: a packed copy where the kernel that computes with this type reads one, else a view.
// Errors are those of pack_row_major and a lack of memory.
Result<ops::Weight> pack_weight(const ops::Ops& ops, Device& device, const Tensor& tensor);

// A packed copy of `weight`, which lies in rows, of `lanes` (8 or 16) rows beside one another.
// `name` is for errors.
Result<ops::Weight> pack_lanes(Device& device, const ops::Weight& weight, int lanes,
                               std::string_view name);

// Brings block `block` of row `row` together again in `dst`.
void copy_packed_block(std::byte* dst, const ops::Weight& weight, int64_t row, int64_t block);

}  // namespace octavo::backends::cpu
