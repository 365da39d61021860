// The kernel of few_tokens_streamed.h. A matrix streams through shared memory while tensor cores
// multiply it: a block takes tiles of 16 rows; some warps have pieces of the rows copied into a
// ring, 16 KB a step, as far ahead as the ring allows and across the ends of tiles; eight multiply
// (mma.sync, the matrix as operand A, tokens as B), each its columns of every step; some add up at
// the end of a tile and store. What a block needs of the input lies in shared memory all the time;
// where that is too much for one, the blocks of a cluster share the columns (tile/stream_plan.h)
// and hand each other sums. E4M3 values are half precision in the products, and 4-bit codes
// bfloat16 (few_tokens_int4.cuh), exactly.
#pragma once

#include "backends/cuda/ptx/fp8.cuh"
#include "backends/cuda/ptx/mma.cuh"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/sm90/few_tokens_input.cuh"
#include "backends/cuda/sm90/few_tokens_int4.cuh"

namespace octavo::backends::cuda::few_tokens {

template <typename Shared>
__device__ void init_barriers(Shared& shared, int ring) {
  for (int i = 0; i < ring; ++i) {
    mbarrier_init(shared_address(&shared.full[i]), Shared::kCopiers);
    mbarrier_init(shared_address(&shared.empty[i]), kStreamWarps);
  }
  mbarrier_init(shared_address(&shared.input), 1);
  for (int i = 0; i < 2; ++i) {
    mbarrier_init(shared_address(&shared.parts_full[i]), Shared::kMultiplyWarps);
    mbarrier_init(shared_address(&shared.parts_empty[i]), kFinishWarps);
    mbarrier_init(shared_address(&shared.gathered[i]), 1);
  }
  if constexpr (Shared::kE4M3) shared.largest = 0;
  mbarrier_fence_init();
}

// Each of the warps that copy has some of a tile's rows, a lane one. Matrices do not depend on the
// kernel ahead: nobody waits for its end here.
template <typename Shared>
__device__ void copy(Shared& shared, uint32_t ring_memory, const ProductCall& call,
                     const StreamPlan& plan, const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = (static_cast<int>(threadIdx.x) - Shared::kMultipliers - kFinishers) / 32;
  const int i = warp * kCopyRows + lane % kCopyRows;
  RingPlace place;
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    const std::byte* row = Tile(call, t).weights(i, call.row_bytes);
    for (int step = 0; step < slice.steps; ++step) {
      const int begin = slice.first_byte() + step * kStreamRowBytes;
      const int bytes = min(kStreamRowBytes, static_cast<int>(call.row_bytes) - begin);
      const uint32_t full = shared_address(&shared.full[place.slot]);
      mbarrier_wait(shared_address(&shared.empty[place.slot]), place.parity ^ 1);
      if (lane == 0) mbarrier_arrive_expect(full, kCopyRows * bytes);
      __syncwarp();
      if (lane < kCopyRows) {
        bulk_copy(ring_memory + place.slot * kStreamStepBytes + i * kStreamRowBytes, row + begin,
                  bytes, full);
      }
      place.advance(plan.ring);
    }
  }
}

// Of a row: 16 bytes from each of the two halves of a warp's columns. Rows begin at the same bank,
// so lanes of odd rows read the halves in the other order. Bytes from `bytes` on are zero.
struct RowWords {
  uint4 half[2];

  __device__ RowWords(const char* row, int lane_byte, bool odd, int bytes) {
    const uint4 first = *reinterpret_cast<const uint4*>(row + lane_byte + (odd ? 64 : 0));
    const uint4 second = *reinterpret_cast<const uint4*>(row + lane_byte + (odd ? 0 : 64));
    half[0] = odd ? second : first;
    half[1] = odd ? first : second;
    if (bytes < kWarpBytes) {
      if (lane_byte >= bytes) half[0] = {};
      if (lane_byte + 64 >= bytes) half[1] = {};
    }
  }
};

// One warp's columns of a step. The order of columns within a product is the same in both operands,
// so it need not be that of memory: a lane's 16 bytes are what it needs for two products. These add
// to sums of their own, for they would wait for each other.
template <int kBlocks>
__device__ void multiply_bf16(float (&sums)[2][kBlocks][4], const RowWords& low,
                              const RowWords& high, const char* input,
                              const int (&token_bytes)[kBlocks], int lane_byte) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t first[4] = {low.half[h].x, high.half[h].x, low.half[h].y, high.half[h].y};
    const uint32_t second[4] = {low.half[h].z, high.half[h].z, low.half[h].w, high.half[h].w};
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const uint4 x = *reinterpret_cast<const uint4*>(input + token_bytes[b] + lane_byte + 64 * h);
      mma_m16n8k16_bf16(sums[0][b], first, x.x, x.y);
      mma_m16n8k16_bf16(sums[1][b], second, x.z, x.w);
    }
  }
}

// The same of E4M3, where they are for four products.
template <int kBlocks>
__device__ void multiply_e4m3(float (&sums)[2][kBlocks][4], const RowWords& low,
                              const RowWords& high, const char* input,
                              const int (&token_bytes)[kBlocks], int lane_byte) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t rows[2][4] = {{low.half[h].x, low.half[h].y, low.half[h].z, low.half[h].w},
                                 {high.half[h].x, high.half[h].y, high.half[h].z, high.half[h].w}};
    uint32_t tokens[kBlocks][4];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const uint4 x = *reinterpret_cast<const uint4*>(input + token_bytes[b] + lane_byte + 64 * h);
      tokens[b][0] = x.x;
      tokens[b][1] = x.y;
      tokens[b][2] = x.z;
      tokens[b][3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t a[4] = {e4m3x2_to_f16x2(rows[0][i]), e4m3x2_to_f16x2(rows[1][i]),
                             e4m3x2_to_f16x2(rows[0][i] >> 16), e4m3x2_to_f16x2(rows[1][i] >> 16)};
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        mma_m16n8k16_f16(sums[i % 2][b], a, e4m3x2_to_f16x2(tokens[b][i]),
                         e4m3x2_to_f16x2(tokens[b][i] >> 16));
      }
    }
  }
}

template <bool kE4M3, int kBlocks>
__device__ void multiply_step(float (&sums)[2][kBlocks][4], const char* weights, const char* input,
                              const int (&token_bytes)[kBlocks], int bytes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = lane / 4, lane_byte = lane % 4 * 16;
  const bool odd = group % 2 != 0;
  const RowWords low(weights + group * kStreamRowBytes, lane_byte, odd, bytes);
  const RowWords high(weights + (group + 8) * kStreamRowBytes, lane_byte, odd, bytes);
  if constexpr (kE4M3) {
    multiply_e4m3(sums, low, high, input, token_bytes, lane_byte);
  } else {
    multiply_bf16(sums, low, high, input, token_bytes, lane_byte);
  }
}

__device__ inline void store_parts(float* parts, const float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  parts += lane % 4 * 2 * kPartsPitch + lane / 4;
  parts[0] = sums[0];
  parts[kPartsPitch] = sums[1];
  parts[8] = sums[2];
  parts[kPartsPitch + 8] = sums[3];
}

template <typename Shared>
__device__ void multiply(Shared& shared, const char* ring_memory, char* input,
                         const ProductCall& call, const StreamPlan& plan, const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = static_cast<int>(threadIdx.x) / (32 * kStreamWarps);
  const int warp = static_cast<int>(threadIdx.x) / 32 % kStreamWarps;  // of the team
  pdl_wait();
  load_input(shared, input, plan.input_pitch, call, slice);
  constexpr int kBlocks = Shared::kBlocks;
  int token_bytes[kBlocks];  // the lane's token of each block; beyond the last, that one
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    token_bytes[b] = min(b * kStreamTokens + lane / 4, call.num_tokens - 1) * plan.input_pitch;
  }
  char* const input_sums = input + call.num_tokens * plan.input_pitch;  // of 4-bit codes
  constexpr bool kInt4 = Shared::kGroup > 0;
  const Int4Lane<kInt4 ? Shared::kGroup : kInt4Columns, kBlocks> int4_lane(warp, token_bytes);
  if constexpr (kInt4) {
    sum_input(input_sums, input, int4_lane, team, slice.steps, Shared::kTeams);
    named_barrier_sync(1, Shared::kMultipliers);
  }
  RingPlace place = {.slot = team}, tile_place;
  int first = team;  // of the tile's steps, the team's
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    constexpr int kSums = kInt4 ? 1 : 2;
    float sums[kSums][kBlocks][4] = {};
    for (int step = first; step < slice.steps; step += Shared::kTeams) {
      mbarrier_wait(shared_address(&shared.full[place.slot]), place.parity);
      const char* weights = ring_memory + place.slot * Shared::kStepBytes;
      if constexpr (kInt4) {
        if ((slice.first_step + step) * Shared::kStepColumns + warp * kInt4Columns <
            call.in_features) {
          multiply_int4(sums[0], weights, input + step * Shared::kInputStepBytes,
                        input_sums + step * kStreamWarps * int4_lane.kSumBytes, int4_lane);
        }
      } else {
        const int begin = step * kStreamRowBytes + warp * kWarpBytes;  // in the slice of a row
        multiply_step<Shared::kE4M3>(sums, weights + warp * kWarpBytes, input + begin, token_bytes,
                                     static_cast<int>(call.row_bytes) - slice.first_byte() - begin);
      }
      bulk_copy_fence();  // or the next copy may overtake loads of this one
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared_address(&shared.empty[place.slot]));
      place.advance(plan.ring, Shared::kTeams);
    }
    const int slot = tile_place.slot;
    mbarrier_wait(shared_address(&shared.parts_empty[slot]), tile_place.parity ^ 1);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int i = 0; kSums > 1 && i < 4; ++i) sums[0][b][i] += sums[kSums - 1][b][i];
      store_parts(shared.parts[slot][first * kStreamWarps + warp] + b * kStreamTokens * kPartsPitch,
                  sums[0][b]);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(shared_address(&shared.parts_full[slot]));
    tile_place.advance(2);
    first = Shared::kTeams > 1 ? (first + slice.steps) % 2 : 0;
  }
}

// The sum of the warps, always in the same order.
template <typename Shared>
__device__ float add_parts(const Shared& shared, int slot, int token, int i) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < Shared::kMultiplyWarps; ++w)
    sum += shared.parts[slot][w][token * kPartsPitch + i];
  return sum;
}

// Results of tokens [first_token, first_token + num_tokens); sum(token, row) counts from there.
template <typename Shared, typename Sum>
__device__ void store_results(const Shared& shared, const ProductCall& call, int t, int thread,
                              int first_token, int num_tokens, const Sum& sum) {
  const Tile tile(call, t);
  const int results = tile.results();  // a power of two
  const int shift = __ffs(results) - 1;
  for (int e = thread; e < num_tokens * results; e += kFinishers) {
    const int token = e >> shift;
    float scale = 1.0f;
    if constexpr (Shared::kE4M3) scale = shared.token_scale[first_token + token];
    tile.finish(call, e & (results - 1), first_token + token,
                [&](int i) { return sum(token, i) * scale; });
  }
}

// Each block of the cluster finishes some of the tokens: all send it their sums for these.
template <typename Shared>
__device__ void send_sums(Shared& shared, int cluster, int rank, int slot, int thread) {
  constexpr int kSums = Shared::kTokens * kStreamRows;
  const int tokens_each = Shared::kTokens / cluster;
  const uint32_t barrier = shared_address(&shared.gathered[slot]);
  if (thread == 0) mbarrier_arrive_expect(barrier, kSums * sizeof(float));
  for (int e = thread; e < kSums; e += kFinishers) {
    const int token = e / kStreamRows, i = e % kStreamRows;
    const int to = token / tokens_each;
    const int place = (rank * tokens_each + token % tokens_each) * kStreamRows + i;
    cluster_store(cluster_address(shared_address(&shared.sums[slot][place]), to),
                  add_parts(shared, slot, token, i), cluster_address(barrier, to));
  }
}

template <typename Shared>
__device__ void finish(Shared& shared, const ProductCall& call, const StreamPlan& plan,
                       const Slice& slice) {
  const int thread = static_cast<int>(threadIdx.x) - Shared::kMultipliers;
  const int tokens_each = Shared::kTokens / plan.cluster;
  pdl_wait();
  if (plan.cluster > 1) cluster_wait();
  RingPlace place;
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    const int slot = place.slot;
    const auto give_back = [&] {
      __syncwarp();
      if (thread % 32 == 0) mbarrier_arrive(shared_address(&shared.parts_empty[slot]));
    };
    mbarrier_wait(shared_address(&shared.parts_full[slot]), place.parity);
    if (plan.cluster == 1) {
      store_results(shared, call, t, thread, 0, tokens_each,
                    [&](int token, int i) { return add_parts(shared, slot, token, i); });
      give_back();
    } else {
      send_sums(shared, plan.cluster, slice.rank, slot, thread);
      give_back();
      mbarrier_wait(shared_address(&shared.gathered[slot]), place.parity);
      store_results(shared, call, t, thread, slice.rank * tokens_each, tokens_each,
                    [&](int token, int i) {
                      float sum = 0.0f;
                      for (int r = 0; r < plan.cluster; ++r) {
                        sum += shared.sums[slot][(r * tokens_each + token) * kStreamRows + i];
                      }
                      return sum;
                    });
      // Who has all that was sent for the next tile then knows that this one's may be overwritten.
      named_barrier_sync(2, kFinishers);
    }
    place.advance(2);
  }
}

template <int kBlocks, Stored kStored>
__global__ void __launch_bounds__(Shared<kBlocks, kStored>::kThreads, 1)
    few_tokens_streamed_kernel(const __grid_constant__ ProductCall call,
                               const __grid_constant__ StreamPlan plan) {
  extern __shared__ __align__(128) char memory[];  // the ring, then the input
  using Parts = Shared<kBlocks, kStored>;
  __shared__ Parts shared;
  pdl_launch_next();
  if (threadIdx.x == 0) init_barriers(shared, plan.ring);
  __syncthreads();
  if (plan.cluster > 1) cluster_arrive();
  const Slice slice(plan);
  if (threadIdx.x < Parts::kMultipliers) {
    multiply(shared, memory, memory + plan.ring * Parts::kStepBytes, call, plan, slice);
  } else if (threadIdx.x < Parts::kMultipliers + kFinishers) {
    return finish(shared, call, plan, slice);
  } else if constexpr (Parts::kGroup > 0) {
    copy_int4(shared, shared_address(memory), call, plan, slice);
  } else {
    copy(shared, shared_address(memory), call, plan, slice);
  }
  if (plan.cluster > 1) cluster_wait();  // every thread once
}

}  // namespace octavo::backends::cuda::few_tokens
