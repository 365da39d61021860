// The input of few_tokens_kernel.cuh in shared memory, in the type of the matrices: copied or, for
// E4M3 matrices and bfloat16 inputs, rounded on the way.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/sm90/few_tokens_shared.cuh"
#include "backends/cuda/tile/round_e4m3.cuh"

namespace octavo::backends::cuda::few_tokens {

// A block's slice of a token's input.
struct InputSlice {
  int bytes;         // that the matrix has columns for
  int padded_bytes;  // with those of the last step that it does not have; they become zero

  __device__ InputSlice(const ProductCall& call, const Slice& slice)
      : bytes(min(slice.steps * kStreamRowBytes,
                  static_cast<int>(call.row_bytes) - slice.first_byte())),
        padded_bytes(slice.steps * kStreamRowBytes) {}
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
  const InputSlice part(call, slice);
  const uint32_t barrier = shared_address(&shared.input);
  clear_padding(input, pitch, call.num_tokens, part);
  __syncwarp();
  if (lane == 0) mbarrier_arrive_expect(barrier, call.num_tokens * part.bytes);
  __syncwarp();
  if (lane >= call.num_tokens) return;
  const void* from = call.x + lane * call.x_stride + slice.first_byte() / 2;
  if constexpr (Shared::kE4M3) {
    from = call.rounded.codes + lane * call.row_bytes + slice.first_byte();
    shared.token_scale[lane] = call.rounded.scales[lane];
  }
  bulk_copy_shared(shared_address(input) + lane * pitch, from, part.bytes, barrier);
}

// Eight values of a row.
__device__ inline uint4 load_eight(const ProductCall& call, int token, int column) {
  return *reinterpret_cast<const uint4*>(call.x + token * call.x_stride + column);
}

// How the warps that multiply share the tokens: some have one together, each of these every so many
// pieces of eight values.
struct TokenShare {
  int first_token, token_step, first_column, column_step;

  __device__ explicit TokenShare(const ProductCall& call) {
    const int thread = static_cast<int>(threadIdx.x);
    const int n = call.num_tokens;
    token_step = n > 4 ? 8 : n > 2 ? 4 : n;
    const int threads_each = kMultipliers / token_step;
    first_token = thread / threads_each;
    first_column = 8 * (thread % threads_each);
    column_step = 8 * threads_each;
  }
};

// The largest magnitude of each token, in shared.largest, which was zero. Of whole rows: the blocks
// of a cluster do not ask each other.
template <typename Shared>
__device__ void find_largest(Shared& shared, const ProductCall& call, const TokenShare& share) {
  for (int token = share.first_token; token < call.num_tokens; token += share.token_step) {
    __nv_bfloat162 largest = {};
#pragma unroll 4
    for (int i = share.first_column; i < call.in_features; i += share.column_step) {
      const uint4 words = load_eight(call, token, i);
      const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
#pragma unroll
      for (int p = 0; p < 4; ++p) largest = __hmax2(largest, __habs2(pairs[p]));
    }
    // Of what is not negative the order is that of the bits.
    const float both = fmaxf(__low2float(largest), __high2float(largest));
    const uint32_t bits = __reduce_max_sync(~0u, __float_as_uint(both));
    if (threadIdx.x % 32 == 0) atomicMax(&shared.largest[token], bits);
  }
}

// By the warps that multiply: the codes of bfloat16 values, and their scales.
template <typename Shared>
__device__ void round_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                            const Slice& slice) {
  const TokenShare share(call);
  const InputSlice part(call, slice);
  if (call.form.rounding == ops::InputRounding::kDynamicE4M3) {
    find_largest(shared, call, share);
    named_barrier_sync(1, kMultipliers);
  }
  if (threadIdx.x < 32) clear_padding(input, pitch, call.num_tokens, part);
  for (int token = share.first_token; token < call.num_tokens; token += share.token_step) {
    const RowScale scale(input_scale(call.form, __uint_as_float(shared.largest[token])));
    if (share.first_column == 0) shared.token_scale[token] = scale.scale;
#pragma unroll 2
    for (int i = share.first_column; i < part.bytes; i += share.column_step) {
      const uint4 words = load_eight(call, token, slice.first_byte() + i);
      const auto codes = [&](uint32_t pair) {
        return scale.round(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000));
      };
      *reinterpret_cast<uint2*>(input + token * pitch + i) = {
          codes(words.x) | codes(words.y) << 16, codes(words.z) | codes(words.w) << 16};
    }
  }
}

// By the warps that multiply; ends with the input there for all of them.
template <typename Shared>
__device__ void load_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                           const Slice& slice) {
  if constexpr (Shared::kE4M3) {
    if (call.rounded.codes == nullptr) {
      round_input(shared, input, pitch, call, slice);
      return named_barrier_sync(1, kMultipliers);
    }
  }
  if (threadIdx.x < 32) copy_input(shared, input, pitch, call, slice);
  named_barrier_sync(1, kMultipliers);  // what was cleared
  mbarrier_wait(shared_address(&shared.input), 0);
}

}  // namespace octavo::backends::cuda::few_tokens
