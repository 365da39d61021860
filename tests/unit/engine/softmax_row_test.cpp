#include "engine/softmax_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace octavo::engine {
namespace {

constexpr size_t kSoftmaxSizes[] = {1, 2, 255, 256, 257, 512, 1000, 49152};

std::vector<float> random_row(Rng& rng, size_t size) {
  std::vector<float> row(size);
  for (float& x : row) x = static_cast<float>(40 * rng.next_double() - 30);
  return row;
}

double exact_weight(float logit, float max, float scale) {
  const float scaled = (logit - max) * scale;
  return scaled >= ops::kLeastScaled ? std::exp(static_cast<double>(scaled)) : 0;
}

TEST(SoftmaxRow, WeightsAreExponentials) {
  SoftmaxRow row;
  row.read(std::vector<float>{0});
  for (float x = 0; x >= -87; x -= 0.0071f) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(row.weight(x) / exact, 1, 3e-7) << x;
  }
  EXPECT_EQ(row.weight(-88), 0);
  EXPECT_EQ(row.weight(-INFINITY), 0);
}

TEST(SoftmaxRow, SumsAreThoseOfTheParts) {
  Rng rng(1);
  SoftmaxRow row;
  for (const size_t size : kSoftmaxSizes) {
    const std::vector<float> logits = random_row(rng, size);
    row.read(logits);
    const float max = *std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(row.max(), max);
    EXPECT_EQ(row.argmax(), std::find(logits.begin(), logits.end(), max) - logits.begin());
    row.set_scale(0.8f);
    const auto exact_from = [&](float bound) {
      double sum = 0;
      for (const float x : logits) {
        if ((x - max) * 0.8f >= bound) sum += exact_weight(x, max, 0.8f);
      }
      return sum;
    };
    EXPECT_NEAR(row.compute_weights(-INFINITY) / exact_from(-INFINITY), 1, 1e-6) << size;
    for (const float bound : {-20.0f, -3.0f, -0.5f, 0.0f}) {
      EXPECT_NEAR(row.sum_from(bound) / exact_from(bound), 1, 1e-6) << size << ", " << bound;
    }
    EXPECT_EQ(row.sum_from(0.5f), 0);
  }
}

TEST(SoftmaxRow, FindsWhereARunningSumPassesTheTarget) {
  Rng rng(2);
  SoftmaxRow row;
  for (const size_t size : kSoftmaxSizes) {
    const std::vector<float> logits = random_row(rng, size);
    row.read(logits);
    row.compute_weights(-15);
    const double sum = row.sum_from(-12);
    for (int i = 0; i < 50; ++i) {
      const double target = rng.next_double() * sum;
      const TokenId id = row.find(target);
      ASSERT_GE(row.scaled(logits[id]), -12) << size;
      double before = 0;
      for (TokenId j = 0; j < id; ++j) {
        if (row.scaled(logits[j]) >= -12) before += exact_weight(logits[j], row.max(), 1);
      }
      EXPECT_LE(before, target + 1e-5 * sum) << size;
      EXPECT_GT(before + exact_weight(logits[id], row.max(), 1), target - 1e-5 * sum) << size;
    }
    // Past the end by a rounding, it stays with what has a weight.
    EXPECT_GE(row.scaled(logits[row.find(sum)]), -12) << size;
  }
}

TEST(SoftmaxRow, TheFirstOfASort) {
  Rng rng(3);
  SoftmaxRow row;
  for (const size_t size : kSoftmaxSizes) {
    std::vector<float> logits = random_row(rng, size);
    for (float& x : logits) x = std::round(x);  // many are equal
    std::vector<Candidate> sorted;
    for (size_t i = 0; i < size; ++i) sorted.push_back({logits[i], static_cast<TokenId>(i)});
    std::sort(sorted.begin(), sorted.end());
    row.read(logits);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{300}, size + 1}) {
      std::vector<Candidate> top;
      row.collect_top(count, top);
      ASSERT_EQ(top.size(), std::min(count, size));
      for (size_t i = 0; i < top.size(); ++i) ASSERT_EQ(top[i].id, sorted[i].id) << size;
    }
  }
}

TEST(SoftmaxRow, SeesEveryNan) {
  SoftmaxRow row;
  for (const size_t size : {1, 255, 256, 257, 1000}) {
    std::vector<float> logits(size, 1.0f);
    row.read(logits);
    EXPECT_FALSE(row.has_nan());
    for (size_t i = 0; i < size; ++i) {
      logits[i] = NAN;
      row.read(logits);
      EXPECT_TRUE(row.has_nan()) << i;
      std::vector<Candidate> top;
      row.collect_top(3, top);  // whatever it finds, it ends
      logits[i] = 1;
    }
  }
}

}  // namespace
}  // namespace octavo::engine
