// Copies blocks of the KV cache inside its pool.
#include "backends/cuda/launch.h"
#include "backends/cuda/tile/copy_blocks.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // loads in flight a thread

// A block of threads a move and part.
__global__ void __launch_bounds__(kThreads)
    copy_blocks_kernel(const BlockPool pool, const __grid_constant__ CopyMoves moves) {
  const BlockMove move = moves.move[blockIdx.x];
  std::byte* part = pool.data + int64_t{blockIdx.y} * pool.part_stride_bytes;
  const auto* from = reinterpret_cast<const uint4*>(part + move.from * pool.block_bytes);
  auto* to = reinterpret_cast<uint4*>(part + move.to * pool.block_bytes);
  const int64_t count = pool.block_bytes / 16;
  for (int64_t first = threadIdx.x; first < count; first += kThreads * kAtOnce) {
    uint4 words[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads < count) words[i] = from[first + i * kThreads];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads < count) to[first + i * kThreads] = words[i];
    }
  }
}

}  // namespace

void launch_copy_blocks(const BlockPool& pool, const CopyMoves& moves, size_t count,
                        cudaStream_t stream) {
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(count), static_cast<unsigned>(pool.num_parts)),
      .block = dim3(kThreads)};
  launch("copy_blocks", copy_blocks_kernel, shape, stream, pool, moves);
}

}  // namespace octavo::backends::cuda
