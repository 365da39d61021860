// The portable prefill kernels that there are (attention_prefill_hd*.cu), and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/tile/prefill_params.h"

namespace octavo::backends::cuda {

struct PortableInputs {
  const __nv_bfloat16* q;
  const uint8_t* k;  // of bfloat16 or E4M3
  const uint8_t* v;
};

// Compile-time constants of a kernel; what they give is in tile/prefill_tiles.cuh.
template <int kHeadDim_, int kBlockM_, int kBlockN_, bool kFp8_>
struct PortableShape {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kBlockM = kBlockM_;  // query rows of a tile
  static constexpr int kBlockN = kBlockN_;  // keys of a block
  static constexpr bool kFp8 = kFp8_;       // K and V are E4M3
};

// What bounds them is registers: 255 for sums, scores and operands; and at hd256 the 99 KiB of
// shared memory of sm_86 and sm_89.
template <bool kFp8>
using PortableHd64 = PortableShape<64, 128, 64, kFp8>;
template <bool kFp8>
using PortableHd128 = PortableShape<128, 128, 64, kFp8>;
template <bool kFp8>
using PortableHd256 = PortableShape<256, 64, kFp8 ? 32 : 64, kFp8>;

// At most `num_blocks` tiles, one a block.
template <typename Shape>
cudaError_t launch_portable_prefill(const PrefillParams& params, const PortableInputs& inputs,
                                    unsigned num_blocks, cudaStream_t stream);

}  // namespace octavo::backends::cuda
