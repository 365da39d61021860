// What the parts of few_tokens_wgmma_kernel.cuh share: its parameters, how a block is made up, its
// shared memory, its slice of the columns and its place in the ring.
#pragma once

#include <cuda.h>

#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/product.cuh"
#include "backends/cuda/tile/swizzle.h"
#include "backends/cuda/tile/wgmma_plan.h"

namespace octavo::backends::cuda::few_tokens_wgmma {

struct Params {
  CUtensorMap matrices[kMaxMatrices];
  CUtensorMap input;
  ProductCall call;
  int cluster;
  int ring;   // steps that are in shared memory at a time
  int steps;  // of all in_features
};

template <int kOfTokens, int kOfGroups>
struct Config {
  static constexpr int kTokens = kOfTokens;
  static constexpr int kGroups = kOfGroups;           // warpgroups that multiply, each 64 rows
  static constexpr int kRows = kGroups * kWgmmaRows;  // of a tile
  static constexpr int kMultipliers = 128 * kGroups;
  static constexpr int kThreads = kMultipliers + 64;
  static constexpr int kSums = kTokens / 2;              // of a thread
  static constexpr int kPanels = wgmma_panels(kGroups);  // of a step
  static constexpr int kWeightPanelBytes = kRows * kPanelRowBytes;
  static constexpr int kInputPanelBytes = kTokens * kPanelRowBytes;
  static constexpr int kWeightBytes = kPanels * kWeightPanelBytes;
  static constexpr int kStepBytes = kWeightBytes + kPanels * kInputPanelBytes;
  static constexpr int kTileSums = kMultipliers * kSums;

  using Tile = ProductTile<kRows>;
  using Sums = float[kSums];
};

// Behind the ring.
struct Shared {
  uint64_t full[kWgmmaMaxRing], empty[kWgmmaMaxRing];
  uint64_t gathered[2];
  float exchange[2];  // sums that threads hand each other, as many as the launch says
};

// The block's columns, in steps, and its place among the clusters.
struct Slice {
  int rank, first_step, steps;
  int cluster_id, num_clusters;

  __device__ explicit Slice(const Params& params)
      : rank(params.cluster > 1 ? static_cast<int>(cluster_rank()) : 0),
        first_step(rank * params.steps / params.cluster),
        steps((rank + 1) * params.steps / params.cluster - first_step),
        cluster_id(static_cast<int>(blockIdx.x) / params.cluster),
        num_clusters(static_cast<int>(gridDim.x) / params.cluster) {}
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

}  // namespace octavo::backends::cuda::few_tokens_wgmma
