#include "backends/cpu/pack_lanes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/linear_panels.h"
#include "backends/cpu/weight_memory.h"
#include "backends/pack_row_major.h"
#include "base/check.h"
#include "base/format.h"
#include "base/thread_pool.h"

namespace octavo::backends::cpu {
namespace {

// Bytes that a thread packs at a time: enough to be worth waking it.
constexpr int64_t kMinPackedBytes = 64 << 10;

struct UnitParts {
  explicit UnitParts(int64_t unit_bytes)
      : lead(packed_lead(unit_bytes)),
        words((unit_bytes - lead) / 4),
        tail(unit_bytes - lead - 4 * words) {}

  int64_t lead;
  int64_t words;
  int64_t tail;
};

// One unit of the rows whose parts of it begin at src[i] + at; of no row: zeros.
void pack_unit(std::byte* dst, std::span<const std::byte* const> src, int64_t at,
               const UnitParts& parts) {
  const auto copy = [&](int64_t bytes) {
    for (const std::byte* row : src) {
      if (row != nullptr) std::memcpy(dst, row + at, bytes);
      dst += bytes;
    }
    at += bytes;
  };
  if (parts.lead > 0) copy(parts.lead);
  for (int64_t w = 0; w < parts.words; ++w) copy(4);
  if (parts.tail > 0) copy(parts.tail);
}

}  // namespace

PackedUnit packed_unit(DType dtype) {
  const DTypeTraits& traits = dtype_traits(dtype);
  if (traits.quantized) return {traits.block_bytes, traits.block_size};
  return {4, 4 / traits.block_bytes};
}

int lanes_of(const Kernel& kernel, DType dtype, int64_t cols) {
  if (dtype_traits(dtype).quantized) {
    const bool reads_packed =
        kernel.arithmetic == Arithmetic::kInt8 && quantized_index(dtype) < kNumUnpackedTypes;
    return reads_packed ? kernel.packed_lanes : 0;
  }
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  return plain && cols % packed_unit(dtype).values == 0 ? kernel.packed_lanes : 0;
}

Result<ops::Weight> pack_weight(const ops::Ops& ops, ops::PackContext& ctx, const Tensor& tensor,
                                std::span<const int64_t> source_rows) {
  const ops::Weight weight = OCTAVO_TRY(view_rows(ops, tensor));
  const KernelFn fn = ops.linear_by_dtype[static_cast<int>(tensor.dtype)];
  for (const Kernel& kernel : kernel_table()) {
    if (kernel.fn != fn) continue;
    const int lanes = lanes_of(kernel, tensor.dtype, weight.cols);
    if (lanes > 0) return pack_lanes(ctx, weight, source_rows, lanes, tensor.name);
  }
  return pack_row_major(ops, ctx, tensor, source_rows);
}

Result<ops::Weight> pack_lanes(ops::PackContext& ctx, const ops::Weight& weight,
                               std::span<const int64_t> source_rows, int lanes,
                               std::string_view name) {
  constexpr int kMostLanes = 16;
  OCTAVO_CHECK(lanes > 0 && lanes <= kMostLanes);
  OCTAVO_CHECK(source_rows.empty() || static_cast<int64_t>(source_rows.size()) == weight.rows);
  const int64_t row_bytes = weight.row_bytes();
  const int64_t padded_rows = round_up(weight.rows, 2 * lanes);
  Buffer buffer = OCTAVO_TRY(allocate_weights(ctx.memory, padded_rows * row_bytes,
                                              format("the packed tensor '{}'", name)));
  const int64_t unit_bytes = packed_unit(weight.dtype).bytes;
  const UnitParts parts(unit_bytes);
  auto pack = [&](int64_t begin, int64_t end, int) {  // groups of `lanes` rows
    for (int64_t group = begin; group < end; ++group) {
      const std::byte* rows[kMostLanes] = {};
      const int64_t first = group * lanes;
      for (int64_t i = 0; i < std::min<int64_t>(lanes, weight.rows - first); ++i) {
        rows[i] = weight.row(source_rows.empty() ? first + i : source_rows[first + i]);
      }
      std::byte* dst = buffer.data.get() + first * row_bytes;
      for (int64_t at = 0; at < row_bytes; at += unit_bytes, dst += lanes * unit_bytes) {
        pack_unit(dst, {rows, static_cast<size_t>(lanes)}, at, parts);
      }
    }
  };
  const int64_t groups = (weight.rows + lanes - 1) / lanes;
  if (ctx.pool == nullptr) {
    pack(0, groups, 0);
  } else {
    ctx.pool->parallel_for(groups, kMinPackedBytes / (lanes * row_bytes) + 1, pack);
  }
  ops::Weight packed = weight;
  packed.layout = lanes == 16 ? ops::PackedLayout::kLanes16 : ops::PackedLayout::kLanes8;
  packed.data = buffer.data.get();
  packed.owner = std::move(buffer.data);
  return packed;
}

void copy_packed_unit(std::byte* dst, const ops::Weight& weight, int64_t row, int64_t unit) {
  const int lanes = packed_lanes(weight.layout);
  if (lanes == 0) return;  // rows that nobody packed
  const int64_t unit_bytes = packed_unit(weight.dtype).bytes;
  const UnitParts parts(unit_bytes);
  const int64_t lane = row % lanes;
  const std::byte* src =
      weight.data + (row - lane) * weight.row_bytes() + unit * lanes * unit_bytes;
  std::memcpy(dst, src + lane * parts.lead, parts.lead);
  src += lanes * parts.lead;
  dst += parts.lead;
  for (int64_t w = 0; w < parts.words; ++w, src += 4 * lanes, dst += 4) {
    std::memcpy(dst, src + 4 * lane, 4);
  }
  std::memcpy(dst, src + lane * parts.tail, parts.tail);
}

}  // namespace octavo::backends::cpu
