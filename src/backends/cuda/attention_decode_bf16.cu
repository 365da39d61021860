// The decode kernel with copies by threads, for any GPU from Ampere on and bfloat16 caches.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_portable_bf16(const DecodeKernelArgs& launch, cudaStream_t stream,
                                 bool overlap) {
  launch_decode<2, PortableDecode>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
