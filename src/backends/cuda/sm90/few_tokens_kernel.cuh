// The kernel of few_tokens_streamed.h. A matrix streams through shared memory while tensor cores
// multiply it: a block takes tiles of 16 rows; some warps have pieces of the rows copied into a
// ring, 16 KB a step, as far ahead as the ring allows and across the ends of tiles; eight multiply
// (mma.sync, the matrix as operand A, tokens as B), each its columns of every step; some add up at
// the end of a tile and store. What a block needs of the input lies in shared memory all the time;
// where that is too much for one, the blocks of a cluster share the columns (tile/stream_plan.h)
// and hand each other sums.
#pragma once

#include "backends/cuda/ptx/bulk_copy.cuh"
#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/mma.cuh"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/product.cuh"
#include "backends/cuda/tile/stream_plan.h"

namespace octavo::backends::cuda::few_tokens {

// Warps of a block: those that multiply, those that finish tiles, those that copy. One that copies
// cannot ask for 16 pieces as fast as they arrive: gate and up of 8 tokens took 74 us on an H200,
// with four warps 57, with others to finish tiles 55 (of 16 tokens 60 and 58).
constexpr int kMultipliers = 32 * kStreamWarps;
constexpr int kFinishWarps = 4;
constexpr int kFinishers = 32 * kFinishWarps;
constexpr int kCopyWarps = 4;
constexpr int kCopyRows = kStreamRows / kCopyWarps;
constexpr int kThreads = kMultipliers + kFinishers + 32 * kCopyWarps;

constexpr int kRowBytes = kStreamColumns * 2;         // of a step
constexpr int kWarpBytes = kRowBytes / kStreamWarps;  // of a row, for each warp
constexpr int kPartsPitch = kStreamRows + 4;          // so that lanes of a warp store to all banks
static_assert(kWarpBytes == 128);

using Tile = ProductTile<kStreamRows>;

template <int kBlocks>  // of tokens
struct Shared {
  static constexpr int kTokens = kBlocks * kStreamTokens;

  uint64_t full[kStreamMaxRing], empty[kStreamMaxRing];
  uint64_t input;  // has arrived
  // Of tiles, by turns: sums of each warp, by token and row; and of each block of the cluster, for
  // the tokens that this one finishes.
  uint64_t parts_full[2], parts_empty[2], gathered[2];
  float parts[2][kStreamWarps][kTokens * kPartsPitch];
  float sums[2][kTokens * kStreamRows];
};

// The block's columns, in steps, and its place among the clusters.
struct Slice {
  int rank, first_step, steps;
  int cluster_id, num_clusters;

  __device__ explicit Slice(const StreamPlan& plan)
      : rank(plan.cluster > 1 ? static_cast<int>(cluster_rank()) : 0),
        first_step(rank * plan.steps / plan.cluster),
        steps((rank + 1) * plan.steps / plan.cluster - first_step),
        cluster_id(static_cast<int>(blockIdx.x) / plan.cluster),
        num_clusters(static_cast<int>(gridDim.x) / plan.cluster) {}
  __device__ int first_column() const { return first_step * kStreamColumns; }
};

// A place in the ring, and the parity of its turn.
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void advance(int ring) {
    if (++slot < ring) return;
    slot = 0;
    parity ^= 1;
  }
};

template <int kBlocks>
__device__ void init_barriers(Shared<kBlocks>& shared, int ring) {
  for (int i = 0; i < ring; ++i) {
    mbarrier_init(shared_address(&shared.full[i]), kCopyWarps);
    mbarrier_init(shared_address(&shared.empty[i]), kStreamWarps);
  }
  mbarrier_init(shared_address(&shared.input), 1);
  for (int i = 0; i < 2; ++i) {
    mbarrier_init(shared_address(&shared.parts_full[i]), kStreamWarps);
    mbarrier_init(shared_address(&shared.parts_empty[i]), kFinishWarps);
    mbarrier_init(shared_address(&shared.gathered[i]), 1);
  }
  mbarrier_fence_init();
}

// Each of the warps that copy has some of a tile's rows, a lane one. Matrices do not depend on the
// kernel ahead: nobody waits for its end here.
template <int kBlocks>
__device__ void copy(Shared<kBlocks>& shared, uint32_t ring_memory, const ProductCall& call,
                     const StreamPlan& plan, const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = (static_cast<int>(threadIdx.x) - kMultipliers - kFinishers) / 32;
  const int i = warp * kCopyRows + lane % kCopyRows;
  RingPlace place;
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    const __nv_bfloat16* row = Tile(call, t).weights(i, call.in_features);
    for (int step = 0; step < slice.steps; ++step) {
      const int column = slice.first_column() + step * kStreamColumns;
      const int bytes = 2 * min(kStreamColumns, call.in_features - column);
      const uint32_t full = shared_address(&shared.full[place.slot]);
      mbarrier_wait(shared_address(&shared.empty[place.slot]), place.parity ^ 1);
      if (lane == 0) mbarrier_arrive_expect(full, kCopyRows * bytes);
      __syncwarp();
      if (lane < kCopyRows) {
        bulk_copy(ring_memory + place.slot * kStreamStepBytes + i * kRowBytes, row + column, bytes,
                  full);
      }
      place.advance(plan.ring);
    }
  }
}

// By the first warp: the slice's columns of each token. What the matrix does not have of the last
// step is zero.
template <int kBlocks>
__device__ void load_input(Shared<kBlocks>& shared, char* input, int pitch, const ProductCall& call,
                           const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int columns = min(slice.steps * kStreamColumns, call.in_features - slice.first_column());
  const uint32_t barrier = shared_address(&shared.input);
  for (int token = 0; token < call.num_tokens; ++token) {
    for (int byte = 2 * columns + 16 * lane; byte < slice.steps * kRowBytes; byte += 512) {
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

// Of a row: 16 bytes from each of the two halves of a warp's columns. Rows begin at the same bank,
// so lanes of odd rows read the halves in the other order. Columns from `columns` on are zero.
struct RowWords {
  uint4 half[2];

  __device__ RowWords(const char* row, int lane_byte, bool odd, int columns) {
    const uint4 first = *reinterpret_cast<const uint4*>(row + lane_byte + (odd ? 64 : 0));
    const uint4 second = *reinterpret_cast<const uint4*>(row + lane_byte + (odd ? 0 : 64));
    half[0] = odd ? second : first;
    half[1] = odd ? first : second;
    if (columns < kWarpBytes / 2) {
      if (lane_byte / 2 >= columns) half[0] = {};
      if (lane_byte / 2 + 32 >= columns) half[1] = {};
    }
  }
};

// One warp's columns of a step. The order of columns within a product is the same in both operands,
// so it need not be that of memory: a lane's 16 bytes are what it needs for two products.
template <int kBlocks>
__device__ void multiply_step(float (&sums)[kBlocks][4], const char* weights, const char* input,
                              const int (&token_bytes)[kBlocks], int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = lane / 4, lane_byte = lane % 4 * 16;
  const RowWords low(weights + group * kRowBytes, lane_byte, group % 2 != 0, columns);
  const RowWords high(weights + (group + 8) * kRowBytes, lane_byte, group % 2 != 0, columns);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t first[4] = {low.half[h].x, high.half[h].x, low.half[h].y, high.half[h].y};
    const uint32_t second[4] = {low.half[h].z, high.half[h].z, low.half[h].w, high.half[h].w};
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const uint4 x = *reinterpret_cast<const uint4*>(input + token_bytes[b] + lane_byte + 64 * h);
      mma_m16n8k16_bf16(sums[b], first, x.x, x.y);
      mma_m16n8k16_bf16(sums[b], second, x.z, x.w);
    }
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

template <int kBlocks>
__device__ void multiply(Shared<kBlocks>& shared, const char* ring_memory, char* input,
                         const ProductCall& call, const StreamPlan& plan, const Slice& slice) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  pdl_wait();
  if (warp == 0) load_input(shared, input, plan.input_pitch, call, slice);
  named_barrier_sync(1, kMultipliers);  // zeros of the input
  mbarrier_wait(shared_address(&shared.input), 0);
  int token_bytes[kBlocks];  // the lane's token of each block; beyond the last, that one
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    token_bytes[b] = min(b * kStreamTokens + lane / 4, call.num_tokens - 1) * plan.input_pitch;
  }
  RingPlace place, tile_place;
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    float sums[kBlocks][4] = {};
    for (int step = 0; step < slice.steps; ++step) {
      const int column = warp * (kWarpBytes / 2) + step * kStreamColumns;
      mbarrier_wait(shared_address(&shared.full[place.slot]), place.parity);
      multiply_step<kBlocks>(sums, ring_memory + place.slot * kStreamStepBytes + warp * kWarpBytes,
                             input + 2 * column, token_bytes,
                             call.in_features - slice.first_column() - column);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared_address(&shared.empty[place.slot]));
      place.advance(plan.ring);
    }
    const int slot = tile_place.slot;
    mbarrier_wait(shared_address(&shared.parts_empty[slot]), tile_place.parity ^ 1);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      store_parts(shared.parts[slot][warp] + b * kStreamTokens * kPartsPitch, sums[b]);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(shared_address(&shared.parts_full[slot]));
    tile_place.advance(2);
  }
}

// The sum of the warps, always in the same order.
template <int kBlocks>
__device__ float add_parts(const Shared<kBlocks>& shared, int slot, int token, int i) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kStreamWarps; ++w) sum += shared.parts[slot][w][token * kPartsPitch + i];
  return sum;
}

// Results of tokens [first_token, first_token + num_tokens); sum(token, row) counts from there.
template <typename Sum>
__device__ void store_results(const ProductCall& call, int t, int thread, int first_token,
                              int num_tokens, const Sum& sum) {
  const Tile tile(call, t);
  const int results = tile.results();
  for (int e = thread; e < num_tokens * results; e += kFinishers) {
    const int token = e / results;
    tile.finish(call, e % results, first_token + token, [&](int i) { return sum(token, i); });
  }
}

// Each block of the cluster finishes some of the tokens: all send it their sums for these.
template <int kBlocks>
__device__ void send_sums(Shared<kBlocks>& shared, int cluster, int rank, int slot, int thread) {
  constexpr int kSums = Shared<kBlocks>::kTokens * kStreamRows;
  const int tokens_each = Shared<kBlocks>::kTokens / cluster;
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

template <int kBlocks>
__device__ void finish(Shared<kBlocks>& shared, const ProductCall& call, const StreamPlan& plan,
                       const Slice& slice) {
  const int thread = static_cast<int>(threadIdx.x) - kMultipliers;
  const int tokens_each = Shared<kBlocks>::kTokens / plan.cluster;
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
      store_results(call, t, thread, 0, tokens_each,
                    [&](int token, int i) { return add_parts(shared, slot, token, i); });
      give_back();
    } else {
      send_sums(shared, plan.cluster, slice.rank, slot, thread);
      give_back();
      mbarrier_wait(shared_address(&shared.gathered[slot]), place.parity);
      store_results(call, t, thread, slice.rank * tokens_each, tokens_each, [&](int token, int i) {
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

template <int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    few_tokens_streamed_kernel(const __grid_constant__ ProductCall call,
                               const __grid_constant__ StreamPlan plan) {
  extern __shared__ __align__(128) char memory[];  // the ring, then the input
  __shared__ Shared<kBlocks> shared;
  pdl_launch_next();
  if (threadIdx.x == 0) init_barriers(shared, plan.ring);
  __syncthreads();
  if (plan.cluster > 1) cluster_arrive();
  const Slice slice(plan);
  if (threadIdx.x < kMultipliers) {
    multiply(shared, memory, memory + plan.ring * kStreamStepBytes, call, plan, slice);
  } else if (threadIdx.x < kMultipliers + kFinishers) {
    return finish(shared, call, plan, slice);
  } else {
    copy(shared, shared_address(memory), call, plan, slice);
  }
  if (plan.cluster > 1) cluster_wait();  // every thread once
}

}  // namespace octavo::backends::cuda::few_tokens
