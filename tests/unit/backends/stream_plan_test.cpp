// How products of few tokens are spread over a GPU: what is planned fits, covers and does not
// depend on more than it may.
#include "backends/cuda/tile/stream_plan.h"

#include <gtest/gtest.h>

namespace octavo::backends::cuda {
namespace {

constexpr int kSharedBytes = 200 * 1024;
constexpr int kH200 = 132;

// Steps of the busiest block.
int64_t busiest(const StreamPlan& plan, int tiles) {
  const int clusters = kH200 / plan.cluster;
  return int64_t{(tiles + clusters - 1) / clusters} *
         ((plan.steps + plan.cluster - 1) / plan.cluster);
}

// Of the shapes below.
void expect_fits_and_covers(const StreamForm& form) {
  for (const int columns : {8, 512, 520, 2048, 4096, 8192, 14336, 14344, 53248, 1 << 20}) {
    for (const int tiles : {1, 36, 256, 384, 8016}) {
      for (const int blocks : {1, 2}) {
        SCOPED_TRACE(::testing::Message()
                     << columns << ", " << tiles << ", " << blocks << ", " << form.columns);
        const StreamPlan plan = plan_stream(tiles, columns, form, blocks, kH200, kSharedBytes);
        if (plan.cluster == 0) {  // only what even the largest cluster cannot hold
          EXPECT_GT(blocks * kStreamTokens * form.input_bytes / form.columns * columns /
                        kStreamMaxCluster,
                    kSharedBytes - (kStreamMinRing + 1) * form.step_bytes - (1 << 16));
          continue;
        }
        EXPECT_EQ(plan.cluster & (plan.cluster - 1), 0);
        EXPECT_LE(plan.cluster, std::min(kStreamMaxCluster, plan.steps));
        EXPECT_GE(plan.steps * form.columns, columns);
        EXPECT_LT((plan.steps - 1) * form.columns, columns);
        EXPECT_GE(plan.ring, kStreamMinRing);
        EXPECT_LE(plan.ring, kStreamMaxRing);
        EXPECT_LE(
            plan.ring * form.step_bytes +
                blocks * kStreamTokens *
                    (plan.input_pitch + ((plan.steps - 1) / plan.cluster + 1) * form.sum_bytes),
            kSharedBytes);
        // The slice of every block, as the kernel cuts them.
        int end = 0;
        for (int rank = 0; rank < plan.cluster; ++rank) {
          const int first = rank * plan.steps / plan.cluster;
          EXPECT_EQ(first, end);
          end = (rank + 1) * plan.steps / plan.cluster;
          EXPECT_GT(end, first);
          EXPECT_LE((end - first) * form.input_bytes, plan.input_pitch);
        }
        EXPECT_EQ(end, plan.steps);
        EXPECT_EQ(plan.input_pitch % 128, 64);
      }
    }
  }
}

TEST(StreamPlan, FitsAndCovers) {
  expect_fits_and_covers(kStreamBF16);
  expect_fits_and_covers(kStreamE4M3);
  for (const int group : {32, 64, 128}) expect_fits_and_covers(stream_int4(group));
}

// 192 tiles on 132 blocks would leave half of them idle for a while.
TEST(StreamPlan, SharesWhatDoesNotDivide) {
  EXPECT_EQ(plan_stream(256, 4096, kStreamBF16, 1, kH200, kSharedBytes).cluster, 1);
  const StreamPlan shared = plan_stream(192, 4096, kStreamBF16, 1, kH200, kSharedBytes);
  EXPECT_GT(shared.cluster, 1);
  EXPECT_LT(busiest(shared, 192), 2 * 8);
  EXPECT_EQ(plan_stream(4, 4096, kStreamBF16, 1, kH200, kSharedBytes).cluster, kStreamMaxCluster);
}

TEST(StreamPlan, LongInputsNeedClusters) {
  EXPECT_GT(plan_stream(256, 14336, kStreamBF16, 1, kH200, kSharedBytes).cluster, 1);
  EXPECT_GT(plan_stream(256, 8192, kStreamBF16, 2, kH200, kSharedBytes).cluster, 1);
  EXPECT_EQ(plan_stream(256, 1 << 24, kStreamBF16, 1, kH200, kSharedBytes).cluster, 0);
}

}  // namespace
}  // namespace octavo::backends::cuda
