#include "backends/cpu/pack_lanes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/linear_panels.h"
#include "backends/cpu/table.h"
#include "backends/pack_row_major.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cpu {
namespace {

struct BlockParts {
  explicit BlockParts(int64_t block_bytes)
      : lead(packed_lead(block_bytes)),
        words((block_bytes - lead) / 4),
        tail(block_bytes - lead - 4 * words) {}

  int64_t lead;
  int64_t words;
  int64_t tail;
};

// One block of `count` rows, of which the first is at `src`.
void pack_block(std::byte* dst, const std::byte* src, int64_t row_bytes, int64_t count, int lanes,
                const BlockParts& parts) {
  const auto copy = [&](int64_t bytes) {
    for (int64_t r = 0; r < count; ++r) std::memcpy(dst + r * bytes, src + r * row_bytes, bytes);
    dst += lanes * bytes;
    src += bytes;
  };
  if (parts.lead > 0) copy(parts.lead);
  for (int64_t w = 0; w < parts.words; ++w) copy(4);
  if (parts.tail > 0) copy(parts.tail);
}

// The lanes of the kernel that `ops` has for this type; 0 where it reads rows.
int lanes_for(const ops::Ops& ops, DType dtype) {
  if (!dtype_traits(dtype).quantized || quantized_index(dtype) >= kNumUnpackedTypes) return 0;
  const KernelFn fn = ops.linear_by_dtype[static_cast<int>(dtype)];
  for (const Kernel& row : kernel_table()) {
    if (row.fn == fn) return row.packed_lanes;
  }
  return 0;
}

}  // namespace

Result<ops::Weight> pack_weight(const ops::Ops& ops, Device& device, const Tensor& tensor) {
  const ops::Weight weight = OCTAVO_TRY(pack_row_major(ops, device, tensor));
  const int lanes = lanes_for(ops, tensor.dtype);
  return lanes == 0 ? weight : pack_lanes(device, weight, lanes, tensor.name);
}

Result<ops::Weight> pack_lanes(Device& device, const ops::Weight& weight, int lanes,
                               std::string_view name) {
  const int64_t panel = 2 * lanes;
  const int64_t row_bytes = weight.row_bytes();
  const int64_t padded_rows = (weight.rows + panel - 1) / panel * panel;
  Buffer buffer =
      OCTAVO_TRY(device.allocate(padded_rows * row_bytes, format("the packed tensor '{}'", name)));
  const int64_t block_bytes = dtype_traits(weight.dtype).block_bytes;
  const BlockParts parts(block_bytes);
  std::byte* dst = buffer.data.get();
  for (int64_t first = 0; first < weight.rows; first += lanes) {
    const int64_t count = std::min<int64_t>(lanes, weight.rows - first);
    const std::byte* rows = weight.row(first);
    for (int64_t at = 0; at < row_bytes; at += block_bytes, dst += lanes * block_bytes) {
      pack_block(dst, rows + at, row_bytes, count, lanes, parts);
    }
  }
  ops::Weight packed = weight;
  packed.layout = lanes == 16 ? ops::PackedLayout::kLanes16 : ops::PackedLayout::kLanes8;
  packed.data = buffer.data.get();
  packed.owner = std::move(buffer.data);
  return packed;
}

void copy_packed_block(std::byte* dst, const ops::Weight& weight, int64_t row, int64_t block) {
  const int lanes = packed_lanes(weight.layout);
  if (lanes == 0) return;  // rows that nobody packed
  const int64_t block_bytes = dtype_traits(weight.dtype).block_bytes;
  const BlockParts parts(block_bytes);
  const int64_t lane = row % lanes;
  const std::byte* src =
      weight.data + (row - lane) * weight.row_bytes() + block * lanes * block_bytes;
  std::memcpy(dst, src + lane * parts.lead, parts.lead);
  src += lanes * parts.lead;
  dst += parts.lead;
  for (int64_t w = 0; w < parts.words; ++w, src += 4 * lanes, dst += 4) {
    std::memcpy(dst, src + 4 * lane, 4);
  }
  std::memcpy(dst, src + lane * parts.tail, parts.tail);
}

}  // namespace octavo::backends::cpu
