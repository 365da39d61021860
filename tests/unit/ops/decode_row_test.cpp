#include "ops/decode_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ops/blocks.h"
#include "tensor/float8.h"

namespace octavo::ops {
namespace {

constexpr uint16_t kHalf = 0x3800;      // 0.5
constexpr uint16_t kMinusTwo = 0xC000;  // -2

template <typename Block>
std::vector<float> decode(DType dtype, const Block& block) {
  std::vector<std::byte> bytes(2 * sizeof(Block));
  std::memcpy(bytes.data() + sizeof(Block), &block, sizeof(Block));  // the first is all zero
  std::vector<float> values(64);
  decode_row_fn(dtype)(bytes.data(), values.data(), 64);
  return {values.begin() + 32, values.end()};
}

// qs[j] holds code j low and code 15 - j high.
template <typename Block>
Block nibbles() {
  Block block = {};
  block.d = kHalf;
  for (int j = 0; j < 16; ++j) block.qs[j] = static_cast<uint8_t>(j | (15 - j) << 4);
  return block;
}

TEST(DecodeRow, Q4) {
  BlockQ4_1 with_min = nibbles<BlockQ4_1>();
  with_min.m = kMinusTwo;
  const std::vector<float> q4_0 = decode(DType::kQ4_0, nibbles<BlockQ4_0>());
  const std::vector<float> q4_1 = decode(DType::kQ4_1, with_min);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(q4_0[j], 0.5f * (j - 8));
    EXPECT_EQ(q4_0[j + 16], 0.5f * (15 - j - 8));
    EXPECT_EQ(q4_1[j], 0.5f * j - 2);
    EXPECT_EQ(q4_1[j + 16], 0.5f * (15 - j) - 2);
  }
}

TEST(DecodeRow, Q5TakesTheFifthBitsInOrder) {
  BlockQ5_0 q5_0 = nibbles<BlockQ5_0>();
  BlockQ5_1 q5_1 = nibbles<BlockQ5_1>();
  q5_1.m = kMinusTwo;
  // Bits 3, 9, 16 and 31 of the word.
  const uint8_t high[4] = {0x08, 0x02, 0x01, 0x80};
  std::memcpy(q5_0.qh, high, 4);
  std::memcpy(q5_1.qh, high, 4);
  const std::vector<float> values_0 = decode(DType::kQ5_0, q5_0);
  const std::vector<float> values_1 = decode(DType::kQ5_1, q5_1);
  for (int j = 0; j < 32; ++j) {
    const int code = (j < 16 ? j : 31 - j) + (j == 3 || j == 9 || j == 16 || j == 31 ? 16 : 0);
    EXPECT_EQ(values_0[j], 0.5f * (code - 16)) << j;
    EXPECT_EQ(values_1[j], 0.5f * code - 2) << j;
  }
}

TEST(DecodeRow, Q8) {
  BlockQ8_0 block = {};
  block.d = kHalf;
  for (int j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(j * 8 - 128);
  const std::vector<float> values = decode(DType::kQ8_0, block);
  for (int j = 0; j < 32; ++j) EXPECT_EQ(values[j], 0.5f * (j * 8 - 128));
}

// 2^-127 is the least scale of the OCP microscaling formats, 2^127 the largest, 255 is none.
TEST(DecodeRow, MXFP4) {
  BlockMXFP4 block = {};
  for (int j = 0; j < 16; ++j) block.qs[j] = static_cast<uint8_t>(j | (15 - j) << 4);
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (const int e : {0, 1, 2, 127, 200, 254}) {
    block.e = static_cast<uint8_t>(e);
    const std::vector<float> values = decode(DType::kMXFP4, block);
    for (int j = 0; j < 16; ++j) {
      const double number = (j < 8 ? 1 : -1) * kNumbers[j % 8] * std::pow(2.0, e - 127);
      EXPECT_EQ(values[j], static_cast<float>(number)) << e << ": " << j;
      EXPECT_EQ(values[31 - j], static_cast<float>(number)) << e << ": " << j;
    }
  }
  block.e = 255;
  for (const float value : decode(DType::kMXFP4, block)) EXPECT_TRUE(std::isnan(value));
}

// Scales are E4M3 without a sign; what would be NaN is zero.
TEST(DecodeRow, NVFP4) {
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 128; ++code) {
    BlockNVFP4 block = {};
    block.d[2] = static_cast<uint8_t>(code);
    for (int j = 0; j < 8; ++j) block.qs[16 + j] = static_cast<uint8_t>(j | (15 - j) << 4);
    const float scale = code == 127 ? 0 : e4m3_to_float(static_cast<uint8_t>(code));
    std::vector<float> values(64);
    decode_row_fn(DType::kNVFP4)(reinterpret_cast<const std::byte*>(&block), values.data(), 64);
    for (int j = 0; j < 64; ++j) {
      const int i = j - 32;
      const float number = i < 0 || i >= 16 ? 0 : i < 8 ? kNumbers[i] : -kNumbers[15 - i];
      EXPECT_EQ(values[j], number * scale) << code << ": " << j;
    }
  }
}

TEST(DecodeRow, PlainTypes) {
  const uint16_t f16[] = {0x3C00, 0xC000, 0x0001, 0x7BFF};
  const uint16_t bf16[] = {0x3F80, 0xC000, 0x0001, 0x7F7F};
  float values[4];
  decode_row_fn(DType::kF16)(reinterpret_cast<const std::byte*>(f16), values, 4);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], 0x1p-24f);
  EXPECT_EQ(values[3], 65504);
  decode_row_fn(DType::kBF16)(reinterpret_cast<const std::byte*>(bf16), values, 4);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], 0x1p-133f);
  EXPECT_EQ(values[3], 0x1.FEp127f);
}

TEST(DecodeRow, NoWeightsOfOtherTypes) {
  for (const DType dtype : {DType::kF64, DType::kI8, DType::kI32, DType::kU8}) {
    EXPECT_EQ(decode_row_fn(dtype), nullptr);
  }
}

}  // namespace
}  // namespace octavo::ops
