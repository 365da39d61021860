// The decode kernel with copies by threads, for any GPU from Ampere on and E4M3 caches. Every one
// of them gives a block 99 KB of shared memory.
#include "backends/cuda/tile/decode_launch.cuh"

namespace octavo::backends::cuda {

void launch_decode_portable_fp8(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap) {
  launch_decode<1, ThreadCopies, 99 * 1024>(launch, stream, overlap);
}

}  // namespace octavo::backends::cuda
