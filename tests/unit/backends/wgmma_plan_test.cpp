// How products of 17 to 64 tokens are spread over a GPU: what is planned is what the kernel has,
// keeps the GPU busy, and does not depend on more than it may.
#include "backends/cuda/tile/wgmma_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace octavo::backends::cuda {
namespace {

constexpr int kMultiprocessors = 132;

WgmmaPlan plan(int rows, int columns, bool gated, int multiprocessors = kMultiprocessors) {
  return plan_wgmma_tiles([&](int tile_rows) { return (rows - 1) / tile_rows + 1; }, columns, gated,
                          multiprocessors);
}

// Columns that the busiest multiprocessor multiplies with 64 rows.
int64_t busiest(const WgmmaPlan& plan, int rows, int columns) {
  const int tiles = (rows - 1) / (plan.groups * kWgmmaRows) + 1;
  const int clusters = kMultiprocessors / plan.cluster;
  return int64_t{(tiles - 1) / clusters + 1} * plan.groups * columns / plan.cluster;
}

TEST(WgmmaPlan, IsOneThatTheKernelHas) {
  for (const int rows : {1, 64, 75, 4096, 8448, 28672, 128256}) {
    for (const int columns : {8, 64, 128, 136, 4096, 14336, 53248}) {
      for (const bool gated : {false, true}) {
        for (const int multiprocessors : {1, 2, 78, kMultiprocessors}) {
          SCOPED_TRACE(::testing::Message()
                       << rows << ", " << columns << ", " << gated << ", " << multiprocessors);
          const WgmmaPlan made = plan(rows, columns, gated, multiprocessors);
          EXPECT_TRUE(made.groups == 1 || made.groups == 2);
          EXPECT_TRUE(made.cluster == 1 || made.cluster == kWgmmaMaxCluster);
          EXPECT_LE(made.cluster, multiprocessors);
          if (made.cluster == 1) continue;
          EXPECT_FALSE(gated);
          EXPECT_EQ(made.groups, 1);
          // A step for every block.
          const int step_columns = wgmma_panels(made.groups) * kPanelColumns;
          EXPECT_GE((columns - 1) / step_columns + 1, made.cluster);
        }
      }
    }
  }
}

// 64 tiles would leave half of the GPU idle.
TEST(WgmmaPlan, SharesFewTiles) {
  EXPECT_EQ(plan(4096, 4096, false).cluster, 2);
  EXPECT_EQ(plan(4096, 14336, false).cluster, 2);
  EXPECT_EQ(plan(8448, 4096, false).cluster, 1);
  EXPECT_EQ(plan(4096, 4096, true).cluster, 1);
}

// Larger tiles read the input less often, but not where they take longer.
TEST(WgmmaPlan, LargeTilesWhereTheyDivide) {
  EXPECT_EQ(plan(28672, 4096, true).groups, 2);
  EXPECT_EQ(plan(8448, 4096, false).groups, 1);
  for (const int rows : {64, 6144, 16896, 28672, 128256}) {
    const int64_t least = std::min(
        {busiest({1, 1}, rows, 4096), busiest({1, 2}, rows, 4096), busiest({2, 1}, rows, 4096)});
    EXPECT_LE(busiest(plan(rows, 4096, false), rows, 4096), least * 6 / 5) << rows;
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
