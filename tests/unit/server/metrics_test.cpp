#include "server/metrics.h"

#include <gtest/gtest.h>

#include <array>

namespace octavo::server {
namespace {

TEST(Metrics, HistogramIsCumulative) {
  Histogram histogram({0.5, 1, 20});
  histogram.observe(0.5);
  histogram.observe(0.75, 2);
  histogram.observe(100);
  std::string text;
  histogram.write(text, "t", "a=\"b\"");
  EXPECT_EQ(text,
            "t_bucket{a=\"b\",le=\"0.5\"} 1\n"
            "t_bucket{a=\"b\",le=\"1.0\"} 3\n"
            "t_bucket{a=\"b\",le=\"20.0\"} 3\n"
            "t_bucket{a=\"b\",le=\"+Inf\"} 4\n"
            "t_sum{a=\"b\"} 102\n"
            "t_count{a=\"b\"} 4\n");
}

TEST(Metrics, BoundsOfLengths) {
  EXPECT_EQ(one_two_five_bounds(120), (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_TRUE(one_two_five_bounds(0).empty());
}

TEST(Metrics, LabelValuesAreEscaped) {
  const std::array<std::pair<std::string_view, std::string_view>, 2> pairs{
      {{"a", "x\"y\\z"}, {"b", "line\nbreak"}}};
  EXPECT_EQ(metric_labels(pairs), "a=\"x\\\"y\\\\z\",b=\"line\\nbreak\"");
}

}  // namespace
}  // namespace octavo::server
