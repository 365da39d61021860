// The input of few_tokens_kernel.cuh in shared memory: copied once and, where the matrices are
// E4M3, rounded there to E4M3 numbers, which half precision holds exactly.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/fp8.cuh"
#include "backends/cuda/sm90/few_tokens_shared.cuh"
#include "backends/cuda/tile/round_e4m3.cuh"

namespace octavo::backends::cuda::few_tokens {

// Columns of the matrix in a block's slice.
__device__ inline int input_columns(const ProductCall& call, const Slice& slice) {
  return min(slice.steps * slice.step_columns, call.in_features - slice.first_column());
}

// By the first warp: the slice's columns of each token. What the matrix does not have of the last
// step is zero.
template <typename Shared>
__device__ void load_input(Shared& shared, char* input, int pitch, const ProductCall& call,
                           const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int columns = input_columns(call, slice);
  const uint32_t barrier = shared_address(&shared.input);
  for (int token = 0; token < call.num_tokens; ++token) {
    for (int byte = 2 * columns + 16 * lane; byte < 2 * slice.steps * slice.step_columns;
         byte += 512) {
      *reinterpret_cast<uint4*>(input + token * pitch + byte) = {};
    }
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive_expect(barrier, call.num_tokens * columns * 2);
  __syncwarp();
  if (lane < call.num_tokens) {
    bulk_copy_shared(shared_address(input) + lane * pitch,
                     call.x + lane * call.x_stride + slice.first_column(), columns * 2, barrier);
  }
}

// How the warps that multiply share the input: some have a token together, each of these every so
// many pieces of 16 bytes.
struct InputShare {
  int first_token, token_step, first_piece, piece_step, pieces;

  __device__ InputShare(const ProductCall& call, const Slice& slice) {
    const int thread = static_cast<int>(threadIdx.x);
    const int n = call.num_tokens;
    token_step = n > 4 ? 8 : n > 2 ? 4 : n;
    const int warps_each = kStreamWarps / token_step;
    first_token = thread / 32 / warps_each;
    first_piece = thread % (32 * warps_each);
    piece_step = 32 * warps_each;
    pieces = input_columns(call, slice) / 8;
  }
};

// The largest magnitude of the slice of each token, in shared.largest, which was zero.
template <typename Shared>
__device__ void find_largest(Shared& shared, const char* input, int pitch, const ProductCall& call,
                             const InputShare& share) {
  for (int token = share.first_token; token < call.num_tokens; token += share.token_step) {
    __nv_bfloat162 largest = {};
    for (int i = share.first_piece; i < share.pieces; i += share.piece_step) {
      const uint4 piece = *reinterpret_cast<const uint4*>(input + token * pitch + 16 * i);
      const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&piece);
#pragma unroll
      for (int p = 0; p < 4; ++p) largest = __hmax2(largest, __habs2(pairs[p]));
    }
    // Of what is not negative the order is that of the bits.
    const float both = fmaxf(__low2float(largest), __high2float(largest));
    const uint32_t bits = __reduce_max_sync(~0u, __float_as_uint(both));
    if (threadIdx.x % 32 == 0) atomicMax(&shared.largest[token], bits);
  }
}

// The blocks of a cluster tell each other what they found: then every one has the largest of all.
template <typename Shared>
__device__ void exchange_largest(Shared& shared, const ProductCall& call, int cluster, int rank) {
  const int thread = static_cast<int>(threadIdx.x), n = call.num_tokens;
  const uint32_t barrier = shared_address(&shared.largest_here);
  if (thread == 0) mbarrier_arrive_expect(barrier, cluster * n * 4);
  if (thread < cluster * n) {
    const int to = thread / n, token = thread % n;
    cluster_store(cluster_address(shared_address(&shared.largest_of[rank][token]), to),
                  __uint_as_float(shared.largest[token]), cluster_address(barrier, to));
  }
  mbarrier_wait(barrier, 0);
}

template <typename Shared>
__device__ float largest_of_row(const Shared& shared, int token, int cluster) {
  if (cluster == 1) return __uint_as_float(shared.largest[token]);
  float largest = 0.0f;
  for (int rank = 0; rank < cluster; ++rank) {
    largest = fmaxf(largest, shared.largest_of[rank][token]);
  }
  return largest;
}

// By the warps that multiply: bfloat16 becomes half precision with the values of E4M3 codes, the
// scale of each token is kept for the sums. Waits for the cluster's beginning.
template <typename Shared>
__device__ void round_input(Shared& shared, char* input, const ProductCall& call,
                            const StreamPlan& plan, const Slice& slice) {
  const InputShare share(call, slice);
  if (plan.cluster > 1) cluster_wait();
  if (call.form.rounding == ops::InputRounding::kDynamicE4M3) {
    find_largest(shared, input, plan.input_pitch, call, share);
    named_barrier_sync(1, kMultipliers);
    if (plan.cluster > 1) exchange_largest(shared, call, plan.cluster, slice.rank);
  }
  for (int token = share.first_token; token < call.num_tokens; token += share.token_step) {
    const RowScale scale(input_scale(call.form, largest_of_row(shared, token, plan.cluster)));
    if (share.first_piece == 0) shared.token_scale[token] = scale.scale;
    for (int i = share.first_piece; i < share.pieces; i += share.piece_step) {
      auto* piece = reinterpret_cast<uint4*>(input + token * plan.input_pitch + 16 * i);
      uint4 words = *piece;
      for (uint32_t* word : {&words.x, &words.y, &words.z, &words.w}) {
        *word = e4m3x2_to_f16x2(
            scale.round(__uint_as_float(*word << 16), __uint_as_float(*word & 0xFFFF0000)));
      }
      *piece = words;
    }
  }
  named_barrier_sync(1, kMultipliers);
}

}  // namespace octavo::backends::cuda::few_tokens
