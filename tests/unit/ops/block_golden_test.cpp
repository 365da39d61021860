// Every quantised type against the values that the Python package `gguf` or llama.cpp decodes: the
// same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "ops/decode_row.h"

namespace octavo::ops {
namespace {

// The ids that GGUF files use, written out here so that the tables of the code are not their own
// judge.
struct Type {
  uint32_t id;
  DType dtype;
  int32_t block_size;
  int32_t block_bytes;
};
constexpr Type kTypes[] = {
    {2, DType::kQ4_0, 32, 18},      {3, DType::kQ4_1, 32, 20},      {6, DType::kQ5_0, 32, 22},
    {7, DType::kQ5_1, 32, 24},      {8, DType::kQ8_0, 32, 34},      {10, DType::kQ2_K, 256, 84},
    {11, DType::kQ3_K, 256, 110},   {12, DType::kQ4_K, 256, 144},   {13, DType::kQ5_K, 256, 176},
    {14, DType::kQ6_K, 256, 210},   {16, DType::kIQ2_XXS, 256, 66}, {17, DType::kIQ2_XS, 256, 74},
    {18, DType::kIQ3_XXS, 256, 98}, {19, DType::kIQ1_S, 256, 50},   {20, DType::kIQ4_NL, 32, 18},
    {21, DType::kIQ3_S, 256, 110},  {22, DType::kIQ2_S, 256, 82},   {23, DType::kIQ4_XS, 256, 136},
    {29, DType::kIQ1_M, 256, 56},   {34, DType::kTQ1_0, 256, 54},   {35, DType::kTQ2_0, 256, 66},
    {39, DType::kMXFP4, 32, 17},    {40, DType::kNVFP4, 64, 36},    {41, DType::kQ1_0, 128, 18},
    {42, DType::kQ2_0, 64, 18},
};

const Type* find_type(uint32_t id) {
  for (const Type& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

TEST(BlockGolden, EveryTypeDecodesToTheReferencesBits) {
  std::ifstream file(OCTAVO_TEST_DATA "/blocks/blocks.bin", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::set<DType> seen;
  size_t at = 0;
  while (at + 8 <= bytes.size()) {
    uint32_t head[2];
    std::memcpy(head, &bytes[at], sizeof(head));
    at += sizeof(head);
    const Type* type = find_type(head[0]);
    ASSERT_NE(type, nullptr) << head[0];
    const DTypeTraits& traits = dtype_traits(type->dtype);
    SCOPED_TRACE(traits.name);
    ASSERT_EQ(traits.block_size, type->block_size);
    ASSERT_EQ(traits.block_bytes, type->block_bytes);
    const int64_t count = int64_t{head[1]} * traits.block_size;
    const size_t block_bytes = size_t{head[1]} * traits.block_bytes;
    ASSERT_LE(at + block_bytes + count * sizeof(float), bytes.size());
    std::vector<float> expected(count);
    std::memcpy(expected.data(), &bytes[at + block_bytes], count * sizeof(float));
    std::vector<float> values(count);
    decode_row_fn(type->dtype)(reinterpret_cast<const std::byte*>(&bytes[at]), values.data(),
                               count);
    for (int64_t i = 0; i < count; ++i) {
      const bool same = std::isnan(expected[i])
                            ? std::isnan(values[i])
                            : std::memcmp(&values[i], &expected[i], sizeof(float)) == 0;
      ASSERT_TRUE(same) << "value " << i << ": " << values[i] << " instead of " << expected[i];
    }
    seen.insert(type->dtype);
    at += block_bytes + count * sizeof(float);
  }
  EXPECT_EQ(at, bytes.size());
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(seen.contains(dtype), dtype_traits(dtype).quantized) << dtype_traits(dtype).name;
  }
}

}  // namespace
}  // namespace octavo::ops
