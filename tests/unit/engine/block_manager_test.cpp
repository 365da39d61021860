#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace octavo::engine {
namespace {

TEST(BlockManager, GrowTakesWholeBlocksAndRefusesWithoutChange) {
  BlockManager manager(4, 16);
  std::vector<int32_t> table;
  EXPECT_TRUE(manager.grow(table, 17));
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(manager.grow(table, 32));
  EXPECT_EQ(table.size(), 2u);
  EXPECT_FALSE(manager.grow(table, 65));
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(manager.num_free_blocks(), 2);
  manager.shrink(table, 16);
  EXPECT_EQ(table.size(), 1u);
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_free_blocks(), 4);
  EXPECT_TRUE(manager.check_integrity());
}

TEST(BlockManager, NoBlockIsGivenOutTwice) {
  BlockManager manager(64, 16);
  std::vector<std::vector<int32_t>> tables(8);
  Rng rng(7);
  for (int round = 0; round < 5000; ++round) {
    auto& table = tables[rng.next_u64() % tables.size()];
    const auto tokens = static_cast<int64_t>(rng.next_u64() % 300);
    if (manager.blocks_for(tokens) >= static_cast<int64_t>(table.size())) {
      manager.grow(table, tokens);
    } else {
      manager.shrink(table, tokens);
    }
    std::set<int32_t> seen;
    size_t used = 0;
    for (const auto& t : tables) {
      seen.insert(t.begin(), t.end());
      used += t.size();
    }
    ASSERT_EQ(seen.size(), used);
    ASSERT_EQ(manager.num_free_blocks() + static_cast<int64_t>(used), manager.num_blocks());
    ASSERT_TRUE(manager.check_integrity());
  }
}

}  // namespace
}  // namespace octavo::engine
