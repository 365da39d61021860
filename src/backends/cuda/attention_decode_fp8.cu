// The decode kernel with copies by threads, for any GPU from Ampere on and E4M3 caches.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_portable_fp8(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  launch_decode<1, PortableDecode>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
