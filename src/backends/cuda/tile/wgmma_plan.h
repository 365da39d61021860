// How a product of 17 to 64 tokens is spread over multiprocessors (sm90/few_tokens_wgmma.cu):
// blocks take tiles of 64 or 128 rows of the matrix; where that makes too few of them, two blocks,
// a cluster, share each tile of 64, every one having its half of in_features. Plain C++, tested on
// the CPU.
//
// The order of a sum follows from `cluster`, which depends on the shape of the matrices and on the
// GPU, and on nothing else: not on the number of tokens.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

inline constexpr int kWgmmaRows = 64;  // of the matrix, in a product of a warpgroup
inline constexpr int kWgmmaMaxCluster = 2;
inline constexpr int kWgmmaMaxRing = 16;

struct WgmmaPlan {
  int groups = 1;   // of 64 rows in a tile: 1 or 2
  int cluster = 1;  // blocks that share a tile: 1 or, where it has 64 rows and is not gated, 2
};

// Panels of 64 columns in a step.
constexpr int wgmma_panels(int groups) {
  return 2 / groups;
}

// The plan whose busiest block copies least, of the matrix and of the input of 32 tokens. `tiles`
// says how many tiles of so many rows the matrices make.
template <typename Tiles>
constexpr WgmmaPlan plan_wgmma_tiles(const Tiles& tiles, int in_features, bool gated,
                                     int multiprocessors) {
  constexpr int64_t kTokens = 32;
  const auto cost = [&](const WgmmaPlan& plan) {
    const int rows = plan.groups * kWgmmaRows;
    const int clusters = multiprocessors / plan.cluster;
    const int64_t turns = (tiles(rows) - 1) / clusters + 1;
    return turns * (rows + kTokens) * (in_features / plan.cluster);
  };
  WgmmaPlan best;
  const bool shares =
      !gated && multiprocessors > 1 && in_features > wgmma_panels(1) * kPanelColumns;
  for (const WgmmaPlan& plan : {WgmmaPlan{2, 1}, WgmmaPlan{1, 2}}) {
    if ((plan.cluster == 1 || shares) && cost(plan) < cost(best)) best = plan;
  }
  return best;
}

}  // namespace octavo::backends::cuda
