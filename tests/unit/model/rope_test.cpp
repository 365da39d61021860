// Frequencies against values that are known from published models and from transformers' formulas,
// worked out by hand.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace octavo::model {
namespace {

void expect_close(double actual, double expected) {
  EXPECT_NEAR(actual / expected, 1, 2e-7);
}

TEST(Rope, Llama31And32) {
  RopeParameters rope;
  rope.rope_type = RopeType::kLlama3;
  rope.rope_theta = 5e5;
  rope.factor = 8;
  rope.original_max_position_embeddings = 8192;
  const auto large = rope_inv_freq(rope, 128, 0);
  expect_close(large[1], .814617234);
  expect_close(large[29], .00216657076);
  expect_close(large[63], 3.06892599e-7);
  rope.factor = 32;
  const auto small = rope_inv_freq(rope, 64, 0);
  expect_close(small[15], .00129054793);
  expect_close(small[31], 9.41830673e-8);
  EXPECT_FALSE(rope.depends_on_length());
  EXPECT_EQ(rope_variant(rope, 1 << 30), 0);
}

// Scout has equal low and high factors: nothing is blended, and nothing is divided by zero.
TEST(Rope, Llama3WithEqualFactors) {
  RopeParameters rope;
  rope.rope_type = RopeType::kLlama3;
  rope.rope_theta = 5e5;
  rope.factor = 16;
  rope.high_freq_factor = 1;
  rope.original_max_position_embeddings = 8192;
  RopeParameters plain;
  plain.rope_theta = 5e5;
  const auto scaled = rope_inv_freq(rope, 128, 0);
  const auto kept = rope_inv_freq(plain, 128, 0);
  int same = 0;
  for (int i = 0; i < 64; ++i) {
    const bool is_kept = scaled[i] == kept[i];
    same += is_kept ? 1 : 0;
    if (!is_kept) expect_close(scaled[i], kept[i] / 16);
  }
  EXPECT_EQ(same, 35);
}

TEST(Rope, DynamicStretchesWithTheSequence) {
  RopeParameters rope;
  rope.rope_type = RopeType::kDynamic;
  rope.factor = 8;
  rope.original_max_position_embeddings = 24;
  const RopeParameters plain;
  ASSERT_TRUE(rope.depends_on_length());
  for (const int64_t tokens : {1, 23, 24}) EXPECT_EQ(rope_variant(rope, tokens), 0);
  EXPECT_EQ(rope_inv_freq(rope, 16, 0), rope_inv_freq(plain, 16, 0));
  EXPECT_NE(rope_variant(rope, 25), rope_variant(rope, 26));
  // theta * (8 * 48 / 24 - 7)^(16 / 14) = 10000 * 9^(8/7)
  const auto doubled = rope_inv_freq(rope, 16, rope_variant(rope, 48));
  const double theta = 10000 * std::pow(9.0, 8.0 / 7);
  for (int i = 0; i < 8; ++i) expect_close(doubled[i], std::pow(theta, -i / 8.0));
}

TEST(Rope, LongropeHasTwoLists) {
  RopeParameters rope;
  rope.rope_type = RopeType::kLongrope;
  rope.original_max_position_embeddings = 64;
  rope.short_factor = {1, 2};
  rope.long_factor = {4, 8};
  EXPECT_EQ(rope_variant(rope, 64), 0);
  EXPECT_EQ(rope_variant(rope, 65), 1);
  EXPECT_EQ(rope_variant(rope, 65), rope_variant(rope, 1000));
  EXPECT_EQ(rope_inv_freq(rope, 4, 0), std::vector<float>({1, 0.005f}));
  EXPECT_EQ(rope_inv_freq(rope, 4, 1), std::vector<float>({0.25f, 0.00125f}));
  rope.long_factor = rope.short_factor;  // a GGUF file's rope_freqs.weight
  EXPECT_FALSE(rope.depends_on_length());
  EXPECT_EQ(rope_variant(rope, 1000), 0);
}

TEST(Rope, AttentionFactors) {
  expect_close(longrope_attention_factor(32, 4096), 1.1902380714238083);  // Phi 3 mini 128k
  EXPECT_EQ(longrope_attention_factor(1, 4096), 1);
  expect_close(yarn_attention_factor(4, 0, 0), 1.1386294361119891);
  EXPECT_EQ(yarn_attention_factor(40, 1, 1), 1);
}

}  // namespace
}  // namespace octavo::model
