// Picks the instance of the decode kernel and launches it, the same for every way of copying.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/tile/decode_kernel.cuh"

namespace octavo::backends::cuda {

struct ResidentBlocks {
  int multiprocessors = 0;
  int each = 0;  // holds so many blocks at the same time
};

template <class Config>
ResidentBlocks resident_blocks() {
  static const ResidentBlocks blocks = [] {
    ResidentBlocks found;
    int device = 0;
    const auto kernel = attention_decode_kernel<Config>;
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    Config::kDynamicBytes),
               "cudaFuncSetAttribute");
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(
        cudaDeviceGetAttribute(&found.multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found.each, kernel, Config::kThreads,
                                                             Config::kDynamicBytes),
               "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return found;
  }();
  return blocks;
}

// As many blocks as run at the same time: they take work until there is none. A batch that cannot
// have more items than there are multiprocessors gets one block for each of them: those of the next
// launch, which may come while these run, then find one place free everywhere, and no
// multiprocessor gets two items.
template <class Config>
void launch_decode_kernel(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  const ResidentBlocks resident = resident_blocks<Config>();
  const bool one_each = decode_max_items(launch.args) <= resident.multiprocessors;
  const int blocks = resident.multiprocessors * (one_each ? 1 : resident.each);
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(blocks)),
                             .block = dim3(Config::kThreads),
                             .shared_bytes = Config::kDynamicBytes,
                             .overlap_previous = overlap};
  cuda::launch("attention_decode", attention_decode_kernel<Config>, shape, stream, launch,
               resident.multiprocessors);
}

template <int kHeadDim, int kValueBytes, class Platform, bool kTokenScales>
void launch_decode_dim(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  const int rows = launch.args.max_q_len * (launch.args.num_heads / launch.args.num_kv_heads);
  if constexpr (decode_tile_rows(kHeadDim) > 8) {
    if (rows > 8) {
      using Config = DecodeConfig<kHeadDim, kValueBytes, 2, Platform, kTokenScales>;
      return launch_decode_kernel<Config>(launch, stream, overlap);
    }
  }
  using Config = DecodeConfig<kHeadDim, kValueBytes, 1, Platform, kTokenScales>;
  launch_decode_kernel<Config>(launch, stream, overlap);
}

template <int kValueBytes, class Platform, bool kTokenScales = false>
void launch_decode(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  switch (launch.args.head_dim) {
    case 64:
      return launch_decode_dim<64, kValueBytes, Platform, kTokenScales>(launch, stream, overlap);
    case 128:
      return launch_decode_dim<128, kValueBytes, Platform, kTokenScales>(launch, stream, overlap);
    default:
      return launch_decode_dim<256, kValueBytes, Platform, kTokenScales>(launch, stream, overlap);
  }
}

}  // namespace octavo::backends::cuda
