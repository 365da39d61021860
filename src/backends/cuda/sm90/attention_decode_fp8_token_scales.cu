// The decode kernel with Hopper's bulk copies, for E4M3 caches with a scale for each token and
// head.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_sm90_fp8_token_scales(const DecodeKernelArgs& launch, cudaStream_t stream,
                                         bool overlap) {
  launch_decode<1, HopperDecode, true>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
