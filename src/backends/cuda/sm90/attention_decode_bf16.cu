// The decode kernel with Hopper's bulk copies, for bfloat16 caches.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_sm90_bf16(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  launch_decode<2, HopperDecode>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
