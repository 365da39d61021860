#include "base/percentile.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

// As numpy.percentile gives them.
TEST(Percentile, LiesBetweenNeighbours) {
  const std::vector<double> values = {15, 20, 50, 35, 40};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 15);
  EXPECT_DOUBLE_EQ(percentile(values, 30), 23);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 35);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 49.6);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 50);
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{1, 2}, 50), 1.5);
}

TEST(Percentile, OfOneAndOfNone) {
  for (const double percent : {0.0, 12.5, 50.0, 100.0}) {
    EXPECT_EQ(percentile(std::vector<float>{7}, percent), 7);
    EXPECT_EQ(percentile(std::vector<double>{}, percent), 0);
  }
}

}  // namespace
}  // namespace octavo
