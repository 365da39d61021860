// What the kernel of copy_blocks is given, and its launch.
#pragma once

#include "backends/cuda/kv_blocks.h"

namespace octavo::backends::cuda {

// As many as the 4 KB of a kernel's arguments hold: no list in device memory has to be kept until
// the kernel has run.
inline constexpr size_t kMovesEach = 480;
struct CopyMoves {
  BlockMove move[kMovesEach];
};

// The first `count` of `moves`.
void launch_copy_blocks(const BlockPool& pool, const CopyMoves& moves, size_t count,
                        cudaStream_t stream);

}  // namespace octavo::backends::cuda
