// Sections keep what tiles share within half of the L2 cache, unless that left too few tiles.
#include "backends/cuda/tile/attention_sections.h"

#include <gtest/gtest.h>

namespace octavo::backends::cuda {
namespace {

constexpr int kHd128Bytes = 2 * 128 * 2;  // a token's key and value in one head

TEST(AttentionSections, KeepKeysInTheCache) {
  EXPECT_EQ(section_kv_heads(8, 1, 512, 1000, kHd128Bytes), 8);     // all fits
  EXPECT_EQ(section_kv_heads(8, 1, 512, 16384, kHd128Bytes), 4);    // 64 MiB
  EXPECT_EQ(section_kv_heads(8, 1, 4096, 131072, kHd128Bytes), 1);  // 64 MiB a head
}

TEST(AttentionSections, KeepEnoughTiles) {
  EXPECT_EQ(section_kv_heads(8, 1, 128, 16384, 2 * 256 * 2), 8);  // 1024 tiles in all
  EXPECT_EQ(section_kv_heads(8, 1, 16, 131072, kHd128Bytes), 8);
  EXPECT_EQ(section_kv_heads(1, 1, 1, 1 << 30, kHd128Bytes), 1);
}

TEST(AttentionSections, DivideTheHeadsAndGrowWithLess) {
  for (int heads = 1; heads <= 40; ++heads) {
    int before = 0;
    for (int keys = 1 << 24; keys >= 0; keys = keys > 0 ? keys / 2 : -1) {
      const int section = section_kv_heads(heads, 2, 2048, keys, kHd128Bytes);
      ASSERT_GE(section, 1);
      ASSERT_EQ(heads % section, 0);
      ASSERT_GE(section, before) << "fewer keys, smaller sections";
      before = section;
    }
    EXPECT_EQ(before, heads);
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
