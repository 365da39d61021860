// How fast this card reads memory when nothing is computed: the ceiling of every kernel that
// streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::backends::cuda {

// Reads `bytes` (a multiple of 16 KB) by bulk copies into shared memory, 16 KB times 6 in flight a
// block, two blocks a multiprocessor. `overlap`: may start while the launch before still runs.
void launch_read(const void* from, int64_t bytes, cudaStream_t stream, bool overlap);

// The same in pieces of 4 KB, as a page of 16 keys of 128 bfloat16 values is, in scattered order.
void launch_scattered_read(const void* from, int64_t bytes, cudaStream_t stream, bool overlap);

}  // namespace octavo::backends::cuda
