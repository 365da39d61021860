// What the parts of few_tokens_kernel.cuh share: which warps do what, the block's shared memory,
// its slice of the columns and its place in the ring.
#pragma once

#include "backends/cuda/ptx/bulk_copy.cuh"
#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/product.cuh"
#include "backends/cuda/tile/stream_plan.h"

namespace octavo::backends::cuda::few_tokens {

// Warps of a block: those that multiply, those that finish tiles, those that copy. One that copies
// cannot ask for 16 pieces as fast as they arrive: gate and up of 8 tokens took 74 us on an H200,
// with four warps 57, with others to finish tiles 55 (of 16 tokens 60 and 58).
constexpr int kFinishWarps = 4;
constexpr int kFinishers = 32 * kFinishWarps;
constexpr int kCopyWarps = 4;
constexpr int kCopyRows = kStreamRows / kCopyWarps;

constexpr int kWarpBytes = kStreamRowBytes / kStreamWarps;  // of a row, for each warp
constexpr int kPartsPitch = kStreamRows + 4;  // so that lanes of a warp store to all banks
static_assert(kWarpBytes == 128);

using Tile = ProductTile<kStreamRows>;

// How the values of matrices are stored.
enum class Stored { kBF16, kE4M3, kInt4By32, kInt4By64, kInt4By128 };

// Of 4-bit codes the columns of a group, else 0.
constexpr int group_of(Stored stored) {
  return stored == Stored::kInt4By32    ? 32
         : stored == Stored::kInt4By64  ? 64
         : stored == Stored::kInt4By128 ? 128
                                        : 0;
}

constexpr StreamForm form_of(Stored stored) {
  return stored == Stored::kBF16   ? kStreamBF16
         : stored == Stored::kE4M3 ? kStreamE4M3
                                   : stream_int4(group_of(stored));
}

// What is kept of the input's tokens where they have scales.
template <int kTokens, bool kE4M3>
struct SharedScales {};

template <int kTokens>
struct SharedScales<kTokens, true> {
  float token_scale[kTokens];
  uint32_t largest;  // magnitude of the single token, as bits
};

template <int kTokenBlocks, Stored kMatrices>
struct Shared : SharedScales<kTokenBlocks * kStreamTokens, kMatrices == Stored::kE4M3> {
  static constexpr int kBlocks = kTokenBlocks;
  static constexpr bool kE4M3 = kMatrices == Stored::kE4M3;
  static constexpr int kGroup = group_of(kMatrices);  // of 4-bit codes; else 0
  static constexpr int kStepColumns = form_of(kMatrices).columns;
  static constexpr int kStepBytes = form_of(kMatrices).step_bytes;
  static constexpr int kInputStepBytes = form_of(kMatrices).input_bytes;
  // Of 4-bit codes two teams of warps take steps in turn, and a warp copies each half tile.
  static constexpr int kTeams = kGroup > 0 ? 2 : 1;
  static constexpr int kMultiplyWarps = kTeams * kStreamWarps;
  static constexpr int kMultipliers = 32 * kMultiplyWarps;
  static constexpr int kCopiers = kGroup > 0 ? 2 : kCopyWarps;
  static constexpr int kThreads = kMultipliers + kFinishers + 32 * kCopiers;
  static constexpr int kTokens = kBlocks * kStreamTokens;

  uint64_t full[kStreamMaxRing], empty[kStreamMaxRing];
  uint64_t input;  // has arrived
  // Of tiles, by turns: sums of each warp, by token and row; and of each block of the cluster, for
  // the tokens that this one finishes.
  uint64_t parts_full[2], parts_empty[2], gathered[2];
  float parts[2][kMultiplyWarps][kTokens * kPartsPitch];
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
  // Of a row where each of its values is as long as one of the input.
  __device__ int first_byte() const { return first_step * kStreamRowBytes; }
};

// A place in the ring, and the parity of its turn.
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void advance(int ring, int by = 1) {
    slot += by;
    if (slot < ring) return;
    slot -= ring;
    parity ^= 1;
  }
};

}  // namespace octavo::backends::cuda::few_tokens
