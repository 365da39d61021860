// Picks the instance of the decode kernel and launches it, the same for every way of copying.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/tile/decode_kernel.cuh"

namespace octavo::backends::cuda {

// As many blocks as run at the same time: they take work until there is none.
template <class Config>
int resident_blocks() {
  static const int blocks = [] {
    int device = 0, multiprocessors = 0, each = 0;
    const auto kernel = attention_decode_kernel<Config>;
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    Config::kDynamicBytes),
               "cudaFuncSetAttribute");
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
               "cudaDeviceGetAttribute");
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, Config::kThreads,
                                                             Config::kDynamicBytes),
               "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return multiprocessors * each;
  }();
  return blocks;
}

template <class Config>
void launch_decode_kernel(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(resident_blocks<Config>())),
                             .block = dim3(Config::kThreads),
                             .shared_bytes = Config::kDynamicBytes,
                             .overlap_previous = overlap};
  cuda::launch("attention_decode", attention_decode_kernel<Config>, shape, stream, launch);
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
