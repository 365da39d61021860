#include "backends/cuda/kv_blocks.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/device_error.h"
#include "backends/cuda/tile/copy_blocks.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

Status check_pool(const char* what, const BlockPool& pool) {
  if (pool.num_parts < 0 || pool.num_parts > 65535 || pool.num_blocks < 0 || pool.block_bytes < 1 ||
      pool.block_bytes % 16 != 0 || pool.part_stride_bytes % 16 != 0) {
    return invalid_argument(format("{}: a pool of {} parts, {} blocks of {} bytes, {} bytes apart",
                                   what, pool.num_parts, pool.num_blocks, pool.block_bytes,
                                   pool.part_stride_bytes));
  }
  return {};
}

Status check_block(const char* what, int32_t block, const BlockPool& pool) {
  if (block >= 0 && block < pool.num_blocks) return {};
  return invalid_argument(format("{}: block {} of a pool of {}", what, block, pool.num_blocks));
}

// Sorted; no block twice.
Result<std::vector<int32_t>> written_blocks(const char* what, std::span<const BlockMove> moves) {
  std::vector<int32_t> written;
  for (const BlockMove& move : moves) written.push_back(move.to);
  std::sort(written.begin(), written.end());
  const auto twice = std::adjacent_find(written.begin(), written.end());
  if (twice == written.end()) return written;
  return invalid_argument(format("{}: block {} is written twice", what, *twice));
}

}  // namespace

Status copy_blocks(const BlockPool& pool, std::span<const BlockMove> moves, cudaStream_t stream) {
  OCTAVO_TRY(check_pool("copy_blocks", pool));
  const std::vector<int32_t> written = OCTAVO_TRY(written_blocks("copy_blocks", moves));
  for (const BlockMove& move : moves) {
    OCTAVO_TRY(check_block("copy_blocks", move.from, pool));
    OCTAVO_TRY(check_block("copy_blocks", move.to, pool));
    if (std::binary_search(written.begin(), written.end(), move.from)) {
      return invalid_argument(format("copy_blocks: block {} is both read and written", move.from));
    }
  }
  if (pool.num_parts == 0) return {};
  for (; !moves.empty(); moves = moves.subspan(std::min(moves.size(), kMovesEach))) {
    const size_t count = std::min(moves.size(), kMovesEach);
    CopyMoves each = {};
    std::copy_n(moves.begin(), count, each.move);
    launch_copy_blocks(pool, each, count, stream);
  }
  return {};
}

Status swap_blocks(const BlockPool& to, const BlockPool& from, std::span<const BlockMove> moves,
                   cudaStream_t stream) {
  OCTAVO_TRY(check_pool("swap_blocks", to));
  OCTAVO_TRY(check_pool("swap_blocks", from));
  if (to.num_parts != from.num_parts || to.block_bytes != from.block_bytes) {
    return invalid_argument(format("swap_blocks: {} parts with blocks of {} bytes to {} with {}",
                                   from.num_parts, from.block_bytes, to.num_parts, to.block_bytes));
  }
  if (stream == nullptr) return invalid_argument("swap_blocks: the default stream");
  OCTAVO_TRY(written_blocks("swap_blocks", moves));
  for (const BlockMove& move : moves) {
    OCTAVO_TRY(check_block("swap_blocks", move.from, from));
    OCTAVO_TRY(check_block("swap_blocks", move.to, to));
  }
  // Copy engines lose time between pieces: blocks that follow each other on both sides are one.
  std::vector<void*> targets;
  std::vector<const void*> sources;
  std::vector<size_t> sizes;
  for (size_t first = 0, next = 0; first < moves.size(); first = next) {
    const auto follows = [&](const BlockMove& move, size_t distance) {
      return move.from == moves[first].from + static_cast<int64_t>(distance) &&
             move.to == moves[first].to + static_cast<int64_t>(distance);
    };
    for (next = first + 1; next < moves.size() && follows(moves[next], next - first);) ++next;
    for (int64_t part = 0; part < to.num_parts; ++part) {
      targets.push_back(to.data + part * to.part_stride_bytes + moves[first].to * to.block_bytes);
      sources.push_back(from.data + part * from.part_stride_bytes +
                        moves[first].from * from.block_bytes);
      sizes.push_back((next - first) * static_cast<size_t>(to.block_bytes));
    }
  }
  if (sizes.empty()) return {};
  // In every driver that runs CUDA 13: there is no need for another way.
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  size_t first_copy = 0;
  check_cuda(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), sizes.size(),
                                  &attributes, &first_copy, 1, stream),
             "cudaMemcpyBatchAsync");
  return {};
}

}  // namespace octavo::backends::cuda
