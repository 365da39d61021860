// Which blocks of rounded activations get codes of 15 bits, and what those stand for.
#include "backends/cpu/fine_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "ops/blocks.h"
#include "support/random_blocks.h"

namespace octavo::backends::cpu {
namespace {

using ops::kBlockValues;

struct Row {
  explicit Row(std::vector<float> values, int64_t count, int64_t type = 0)
      : x(std::move(values)),
        num_blocks(static_cast<int64_t>(x.size()) / kBlockValues),
        blocks(num_blocks + count) {
    const Int8Kernel& kernel = kInt8Generic.by_type[type];
    kInt8Generic.quantize(blocks.data(), x.data(), num_blocks, kernel);
    refine_largest(blocks.data(), x.data(), num_blocks, count, kernel);
  }

  // Value `i` as a kernel multiplies it.
  float value(int64_t i) const {
    const QuantizedBlock& block = blocks[i / kBlockValues];
    int code = block.codes[i % kBlockValues];
    if (block.fine > 0) code += kUpperStep * (&block)[block.fine].codes[i % kBlockValues];
    return block.scale * static_cast<float>(code);
  }

  std::vector<float> x;
  int64_t num_blocks;
  std::vector<QuantizedBlock> blocks;
};

// From `least` to `most`.
int64_t random_int(Rng& rng, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(rng.next_u64() % static_cast<uint64_t>(most - least + 1));
}

std::vector<float> random_row(Rng& rng, int64_t blocks) {
  std::vector<float> x(blocks * kBlockValues);
  for (float& value : x) value = testing::random_normal(rng);
  return x;
}

float largest(const Row& row, int64_t block) {
  float top = 0;
  for (int i = 0; i < kBlockValues; ++i) {
    top = std::max(top, std::abs(row.x[block * kBlockValues + i]));
  }
  return top;
}

TEST(FineBlocks, OneInSixteenAndAtLeastOne) {
  EXPECT_EQ(num_fine_blocks(1), 1);
  EXPECT_EQ(num_fine_blocks(18), 1);
  EXPECT_EQ(num_fine_blocks(64), 4);
}

TEST(FineBlocks, TheLargestAreRoundedTo15Bits) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t num_blocks = random_int(rng, 1, 40);
    const int64_t count = random_int(rng, 0, num_blocks);
    const Row row(random_row(rng, num_blocks), count);
    std::vector<float> tops;
    for (int64_t b = 0; b < num_blocks; ++b) tops.push_back(largest(row, b));
    std::vector<float> order = tops;
    std::sort(order.rbegin(), order.rend());
    for (int64_t b = 0; b < num_blocks; ++b) {
      const bool fine = count > 0 && tops[b] >= order[count - 1];
      ASSERT_EQ(row.blocks[b].fine > 0, fine) << b;
      const float step = tops[b] / 127 / (fine ? kUpperStep : 1);
      for (int64_t i = b * kBlockValues; i < (b + 1) * kBlockValues; ++i) {
        ASSERT_NEAR(row.value(i), row.x[i], 0.501 * step);
      }
    }
  }
}

TEST(FineBlocks, EachBlockKnowsTheNextFineOne) {
  Rng rng(2);
  for (int round = 0; round < 100; ++round) {
    const int64_t num_blocks = random_int(rng, 1, 40);
    const Row row(random_row(rng, num_blocks), random_int(rng, 0, 3));
    int64_t next = -1;
    for (int64_t b = num_blocks - 1; b >= 0; --b) {
      if (row.blocks[b].fine > 0) {
        next = b;
      } else if (next >= 0) {
        ASSERT_EQ(row.blocks[b].fine, b - next);
      } else {
        ASSERT_LE(row.blocks[b].fine, b - num_blocks);
      }
    }
  }
}

TEST(FineBlocks, SumsAreThoseOfTheCodes) {
  Rng rng(3);
  constexpr int64_t kQ2K = 5;  // two parts
  for (const int64_t type : {int64_t{0}, kQ2K}) {
    const Row row(random_row(rng, 1), 1, type);
    ASSERT_GT(row.blocks[0].fine, 0);
    const int parts = kInt8Generic.by_type[type].parts;
    for (int p = 0; p < parts; ++p) {
      double sum = 0;
      for (int i = 0; i < kBlockValues / parts; ++i) sum += row.value(p * kBlockValues / parts + i);
      EXPECT_NEAR(row.blocks[0].sums[p], sum, 1e-5);
    }
  }
}

TEST(FineBlocks, BlocksOfZerosAndOfNoNumbersStayAsTheyAre) {
  Rng rng(4);
  std::vector<float> x = random_row(rng, 3);
  std::fill_n(x.begin(), kBlockValues, 0.0f);
  x[kBlockValues] = std::numeric_limits<float>::infinity();
  const Row row(x, 3);
  EXPECT_LT(row.blocks[0].fine, 0);
  EXPECT_LT(row.blocks[1].fine, 0);
  EXPECT_TRUE(std::isnan(row.blocks[1].scale));
  EXPECT_GT(row.blocks[2].fine, 0);
}

}  // namespace
}  // namespace octavo::backends::cpu
