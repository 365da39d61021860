// Whole blocks of the KV cache, of all layers at once: copied inside a pool (a sequence that
// branches), or swapped between the GPU's pool and one in pinned host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "octavo/status.h"

namespace octavo::backends::cuda {

// K and V of every layer: block b of part p begins at data + p * part_stride_bytes +
// b * block_bytes.
struct BlockPool {
  std::byte* data = nullptr;  // aligned to 16 bytes
  int num_parts = 0;          // layers times 2
  int64_t part_stride_bytes = 0;
  int64_t block_bytes = 0;  // a multiple of 16
  int64_t num_blocks = 0;
};

struct BlockMove {
  int32_t from;
  int32_t to;
};

// Copies blocks inside a pool in device memory. All moves happen at once: an error where a block is
// written twice, or both read and written, or is not in the pool.
Status copy_blocks(const BlockPool& pool, std::span<const BlockMove> moves, cudaStream_t stream);

// Copies blocks from one pool to another, each in device or in pinned host memory, with the same
// parts and blocks. `stream` may not be the default one.
Status swap_blocks(const BlockPool& to, const BlockPool& from, std::span<const BlockMove> moves,
                   cudaStream_t stream);

}  // namespace octavo::backends::cuda
