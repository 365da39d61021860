// What the kernel of write_kv is given, and its launch.
#pragma once

#include "backends/cuda/kv_write.h"
#include "backends/cuda/tile/fast_divisor.h"

namespace octavo::backends::cuda {

inline constexpr int kMaxKvHeadDim = 512;

struct KvWriteLaunch {
  KvWriteArgs args;
  FastDivisor block_size;
  int lane_shift;  // a head has 1 << lane_shift threads, of which head_dim / 16 have values
};

void launch_write_kv(const KvWriteLaunch& write, cudaStream_t stream, bool overlap_previous);

}  // namespace octavo::backends::cuda
