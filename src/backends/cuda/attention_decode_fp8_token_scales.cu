// The decode kernel with copies by threads, for E4M3 caches with a scale for each token and head.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_portable_fp8_token_scales(const DecodeKernelArgs& launch, cudaStream_t stream,
                                             bool overlap) {
  launch_decode<1, PortableDecode, true>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
