// How a product of 17 to 64 tokens is spread over multiprocessors (sm90/few_tokens_wgmma.cu):
// blocks take tiles of 64, 128 or 256 rows of the matrix; where that makes too few of them, the
// blocks of a cluster share each tile, every one having its slice of in_features. Plain C++, tested
// on the CPU.
//
// The order of a sum follows from `cluster`, which depends on the shape of the matrices and on the
// GPU, and on nothing else: not on the number of tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

inline constexpr int kWgmmaRows = 64;  // of the matrix, in a product of a warpgroup
inline constexpr int kWgmmaMaxCluster = 2;
inline constexpr int kWgmmaMaxRing = 16;

// Panels of 64 columns in a step.
constexpr int wgmma_panels(int row_blocks) {
  return row_blocks == 1 ? 2 : 1;
}

struct WgmmaPlan {
  int row_blocks = 1;  // of 64 rows in a tile: 1, 2 or 4
  int cluster = 1;     // blocks that share a tile: 1 or 2; of tiles of 256 rows and gated ones 1
};

// `tiles(rows)`: how many tiles of so many rows the matrices make.
template <typename Tiles>
constexpr WgmmaPlan plan_wgmma_tiles(const Tiles& tiles, int in_features, bool gated,
                                     int multiprocessors) {
  constexpr int kTokens = 32;
  WgmmaPlan best;
  int64_t best_cost = 0;
  for (int row_blocks = 4; row_blocks >= 1; row_blocks /= 2) {
    const int rows = row_blocks * kWgmmaRows;
    const int64_t num_tiles = tiles(rows);
    const int step_columns = wgmma_panels(row_blocks) * kPanelColumns;
    const int max_cluster =
        gated || row_blocks == 4 || in_features <= step_columns ? 1 : kWgmmaMaxCluster;
    for (int cluster = 1; cluster <= max_cluster; ++cluster) {
      const int64_t clusters = std::max(1, multiprocessors / cluster);
      const int64_t turns = (num_tiles - 1) / clusters + 1;
      const int64_t columns = (in_features - 1) / cluster + 1;
      // Values that the busiest block copies, and that all do.
      const int64_t busiest = turns * (rows + kTokens) * columns;
      const int64_t all = num_tiles * (rows + kTokens) * in_features / multiprocessors;
      const int64_t cost = std::max(busiest, all);
      if (best_cost != 0 && cost >= best_cost) continue;
      best_cost = cost;
      best = {row_blocks, cluster};
    }
  }
  return best;
}

}  // namespace octavo::backends::cuda
