// The input of few_tokens_kernel.cuh in shared memory, of E4M3 matrices as codes, else in bfloat16:
// copied or, of E4M3 matrices and a single token in bfloat16, rounded on the way.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/sm90/few_tokens_shared.cuh"
#include "backends/cuda/tile/round_e4m3.cuh"

namespace octavo::backends::cuda::few_tokens {

// A block's slice of a token's input.
struct InputSlice {
  int first_byte;
  int bytes;         // that the matrix has columns for
  int padded_bytes;  // with those of the last step that it does not have; they become zero

  template <typename Shared>
  __device__ InputSlice(const Shared&, const ProductCall& call, const Slice& slice)
      : first_byte(slice.first_step * Shared::kInputStepBytes),
        bytes(min(slice.steps * Shared::kInputStepBytes,
                  call.in_features * (Shared::kE4M3 ? 1 : 2) - first_byte)),
        padded_bytes(slice.steps * Shared::kInputStepBytes) {}
};

// By one warp.
__device__ inline void clear_padding(char* input, int pitch, int num_tokens,
                                     const InputSlice& part) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int token = 0; token < num_tokens; ++token) {
    for (int byte = part.bytes + 16 * lane; byte < part.padded_bytes; byte += 512) {
      *reinterpret_cast<uint4*>(input + token * pitch + byte) = {};
    }
  }
}

// By the first warp.
template <typename Shared>
__device__ void copy_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                           const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const InputSlice part(shared, call, slice);
  const uint32_t barrier = shared_address(&shared.input);
  clear_padding(input, pitch, call.num_tokens, part);
  __syncwarp();
  if (lane == 0) mbarrier_arrive_expect(barrier, call.num_tokens * part.bytes);
  __syncwarp();
  if (lane >= call.num_tokens) return;
  const void* from = call.x + lane * call.x_stride + part.first_byte / 2;
  if constexpr (Shared::kE4M3) {
    from = call.rounded.codes + lane * call.row_bytes + part.first_byte;
    shared.token_scale[lane] = call.rounded.scales[lane];
  }
  bulk_copy_shared(shared_address(input) + lane * pitch, from, part.bytes, barrier);
}

// By the warps that multiply: the codes of a single token in bfloat16, and its scale. All of its
// row is read at once, by every block: those of a cluster do not ask each other for its largest
// value.
template <typename Shared>
__device__ void round_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                            const Slice& slice) {
  constexpr int kPieces = kSelfRoundedFeatures / (8 * Shared::kMultipliers);
  const int thread = static_cast<int>(threadIdx.x);
  uint4 pieces[kPieces];  // eight values each
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int column = 8 * (thread + i * Shared::kMultipliers);
    pieces[i] = {};
    if (column < call.in_features) pieces[i] = *reinterpret_cast<const uint4*>(call.x + column);
  }
  __nv_bfloat162 largest = {};
#pragma unroll
  for (const uint4& piece : pieces) {
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&piece);
#pragma unroll
    for (int p = 0; p < 4; ++p) largest = __hmax2(largest, __habs2(pairs[p]));
  }
  // Of what is not negative the order is that of the bits.
  const float both = fmaxf(__low2float(largest), __high2float(largest));
  const uint32_t bits = __reduce_max_sync(~0u, __float_as_uint(both));
  if (thread % 32 == 0) atomicMax(&shared.largest, bits);
  if (thread < 32) clear_padding(input, pitch, 1, InputSlice(shared, call, slice));
  named_barrier_sync(1, Shared::kMultipliers);
  const RowScale scale(input_scale(call.form, __uint_as_float(shared.largest)));
  if (thread == 0) shared.token_scale[0] = scale.scale;
  const int end = InputSlice(shared, call, slice).bytes;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = 8 * (thread + i * Shared::kMultipliers) - slice.first_byte();
    if (at < 0 || at >= end) continue;
    const auto codes = [&](uint32_t pair) {
      return scale.round(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000));
    };
    *reinterpret_cast<uint2*>(input + at) = {codes(pieces[i].x) | codes(pieces[i].y) << 16,
                                             codes(pieces[i].z) | codes(pieces[i].w) << 16};
  }
}

// By the warps that multiply; ends with the input there for all of them.
template <typename Shared>
__device__ void load_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                           const Slice& slice) {
  if constexpr (Shared::kE4M3) {
    if (call.rounded.codes == nullptr) {
      round_input(shared, input, pitch, call, slice);
      return named_barrier_sync(1, Shared::kMultipliers);
    }
  }
  if (threadIdx.x < 32) copy_input(shared, input, pitch, call, slice);
  named_barrier_sync(1, Shared::kMultipliers);  // what was cleared
  mbarrier_wait(shared_address(&shared.input), 0);
}

}  // namespace octavo::backends::cuda::few_tokens
