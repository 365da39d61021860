// Weights of 8 or 16 rows beside one another, as the kernels read them: each block of those rows
// together, in it first the bytes before the 32-bit words (packed_lead), then word by word, then
// the bytes after them; of each all rows in turn. So a kernel's vectors are loaded straight, in one
// stream, where rows have to be transposed from as many streams as there are rows. The size is that
// of the file; rows are padded with zeros to whole panels. Of plain types a word is a block.
#pragma once

#include <span>

#include "backends/cpu/table.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

inline int packed_lanes(ops::PackedLayout layout) {
  if (layout == ops::PackedLayout::kLanes16) return 16;
  return layout == ops::PackedLayout::kLanes8 ? 8 : 0;
}

// What stays together where rows are packed.
struct PackedUnit {
  int64_t bytes;
  int64_t values;
};
PackedUnit packed_unit(DType dtype);

// How many rows of a matrix with rows of `cols` values a kernel wants beside one another; 0: it
// reads them as they lie in the file.
int lanes_of(const Kernel& kernel, DType dtype, int64_t cols);

// pack_weight: a packed copy where the kernel that computes with this type reads one, else as
// pack_row_major, whose errors it has, and a lack of memory.
Result<ops::Weight> pack_weight(const ops::Ops& ops, ops::PackContext& ctx, const Tensor& tensor,
                                std::span<const int64_t> source_rows);

// A packed copy of `weight`, which lies in rows, of `lanes` (8 or 16) rows beside one another.
// `name` is for errors.
Result<ops::Weight> pack_lanes(ops::PackContext& ctx, const ops::Weight& weight,
                               std::span<const int64_t> source_rows, int lanes,
                               std::string_view name);

// Brings unit `unit` of row `row` together again in `dst`.
void copy_packed_unit(std::byte* dst, const ops::Weight& weight, int64_t row, int64_t unit);

}  // namespace octavo::backends::cpu
