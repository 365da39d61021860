// The block manager against a plain model of what it must do: tables of contents, counted anew
// after every call.
#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "support/counting.h"

namespace octavo::engine {
namespace {

using testing::counting;

bool intact(const BlockManager& manager, std::initializer_list<const BlockTable*> tables) {
  return manager.check_integrity(std::vector(tables)) &&
         manager.num_used_blocks() + manager.num_cached_blocks() + manager.num_free_blocks() ==
             manager.num_blocks();
}

TEST(BlockManager, GrowTakesWholeBlocksAndRefusesWithoutChange) {
  BlockManager manager(4, 16);
  BlockTable table;
  EXPECT_TRUE(manager.grow(table, 17));
  EXPECT_EQ(table.blocks.size(), 2u);
  EXPECT_TRUE(manager.grow(table, 32));
  EXPECT_EQ(table.blocks.size(), 2u);
  EXPECT_FALSE(manager.grow(table, 65));
  EXPECT_EQ(table.blocks.size(), 2u);
  EXPECT_EQ(manager.num_free_blocks(), 2);
  manager.shrink(table, 16);
  EXPECT_EQ(table.blocks.size(), 1u);
  EXPECT_TRUE(intact(manager, {&table}));
  EXPECT_FALSE(intact(manager, {}));
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_free_blocks(), 4);
}

TEST(BlockManager, AFinishedPrefixIsFoundAgain) {
  BlockManager manager(8, 4, true);
  const auto ids = counting(10);
  BlockTable table;
  ASSERT_TRUE(manager.grow(table, 10));
  manager.index_computed(table, ids, 10, "");
  const std::vector<int32_t> full(table.blocks.begin(), table.blocks.begin() + 2);
  EXPECT_EQ(manager.match(ids, "").blocks, full);
  EXPECT_EQ(manager.match(ids, "").num_used, 2);
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_cached_blocks(), 2);
  EXPECT_EQ(manager.match(ids, "").blocks, full);
  EXPECT_EQ(manager.match(ids, "").num_used, 0);
  EXPECT_EQ(manager.match(std::span(ids).first(7), "").blocks.size(), 1u);
  EXPECT_TRUE(manager.match(counting(10, 1), "").blocks.empty());
  EXPECT_TRUE(manager.match(ids, "someone's salt").blocks.empty());

  BlockTable other;
  manager.acquire(other, manager.match(ids, ""));
  EXPECT_EQ(other.blocks, full);
  EXPECT_EQ(manager.num_cached_blocks(), 0);
  EXPECT_TRUE(intact(manager, {&other}));
}

// The second block of "0 1 2 3 | 4 5 6 7" must not be found after another first block.
TEST(BlockManager, ABlockIsFoundOnlyAfterItsOwnPrefix) {
  BlockManager manager(8, 4, true);
  BlockTable table;
  ASSERT_TRUE(manager.grow(table, 8));
  manager.index_computed(table, counting(8), 8, "");
  std::vector<TokenId> other = counting(8);
  other[0] = 77;
  EXPECT_TRUE(manager.match(other, "").blocks.empty());
  const std::vector<TokenId> tail(other.begin() + 4, other.end());
  EXPECT_TRUE(manager.match(tail, "").blocks.empty());
}

TEST(BlockManager, SaltsKeepPrefixesApart) {
  BlockManager manager(8, 4, true);
  BlockTable a, b;
  for (auto [table, salt] : {std::pair(&a, "a"), std::pair(&b, "b")}) {
    ASSERT_TRUE(manager.grow(*table, 8));
    manager.index_computed(*table, counting(8), 8, salt);
  }
  EXPECT_EQ(manager.match(counting(8), "a").blocks, a.blocks);
  EXPECT_EQ(manager.match(counting(8), "b").blocks, b.blocks);
  EXPECT_NE(a.blocks, b.blocks);
  EXPECT_TRUE(manager.match(counting(8), "").blocks.empty());
}

TEST(BlockManager, EqualBlocksAreMerged) {
  BlockManager manager(8, 4, true);
  BlockTable a, b;
  ASSERT_TRUE(manager.grow(a, 9));
  ASSERT_TRUE(manager.grow(b, 9));
  manager.index_computed(a, counting(9), 9, "");
  manager.index_computed(b, counting(9), 9, "");
  EXPECT_EQ(a.blocks[0], b.blocks[0]);
  EXPECT_EQ(a.blocks[1], b.blocks[1]);
  EXPECT_NE(a.blocks[2], b.blocks[2]);
  EXPECT_EQ(manager.num_used_blocks(), 4);
  EXPECT_TRUE(intact(manager, {&a, &b}));
}

TEST(BlockManager, AChainIsEvictedFromItsEndAndTheOldestFirst) {
  BlockManager manager(6, 4, true);
  BlockTable first, second;
  ASSERT_TRUE(manager.grow(first, 12));
  manager.index_computed(first, counting(12), 12, "");
  ASSERT_TRUE(manager.grow(second, 12));
  manager.index_computed(second, counting(12, 50), 12, "");
  manager.shrink(first, 0);
  manager.shrink(second, 0);
  for (size_t left : {2, 1, 0}) {
    BlockTable taker;
    ASSERT_TRUE(manager.grow(taker, 4 * static_cast<int64_t>(3 - left)));
    EXPECT_EQ(manager.match(counting(12), "").blocks.size(), left);
    EXPECT_EQ(manager.match(counting(12, 50), "").blocks.size(), 3u);
    manager.shrink(taker, 0);
  }
}

TEST(BlockManager, AForkCopiesTheBlockThatItWritesTo) {
  BlockManager manager(8, 4);
  std::vector<BlockCopy> copies;
  BlockTable parent;
  ASSERT_TRUE(manager.grow(parent, 6));
  BlockTable child = manager.fork(parent);
  EXPECT_EQ(manager.num_used_blocks(), 2);
  EXPECT_EQ(manager.page_table(child)[1].reference_count, 2);
  const int32_t shared = parent.blocks[1];
  ASSERT_TRUE(manager.grow(child, 6, {7, 7}, copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, shared);
  EXPECT_EQ(copies[0].destination, child.blocks[1]);
  EXPECT_NE(child.blocks[1], shared);
  ASSERT_TRUE(manager.grow(parent, 6, {7, 7}, copies));  // alone again: writes where it is
  EXPECT_EQ(copies.size(), 1u);
  EXPECT_EQ(parent.blocks[1], shared);
  EXPECT_EQ(parent.blocks[0], child.blocks[0]);
  EXPECT_TRUE(intact(manager, {&parent, &child}));
}

TEST(BlockManager, AForkWithoutRoomChangesNothing) {
  BlockManager manager(2, 4);
  std::vector<BlockCopy> copies;
  BlockTable parent;
  ASSERT_TRUE(manager.grow(parent, 6));
  BlockTable child = manager.fork(parent);
  EXPECT_FALSE(manager.grow(child, 6, {7, 7}, copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(child.blocks, parent.blocks);
  EXPECT_TRUE(intact(manager, {&parent, &child}));
}

TEST(BlockManager, WhatAWindowLeavesBehindIsGivenBack) {
  BlockManager manager(8, 4, true, {{.window = 5}});
  BlockTable table;
  ASSERT_TRUE(manager.grow(table, 16));
  manager.index_computed(table, counting(16), 16, "");
  manager.release_unseen(table, 15);  // sees 11 to 15
  EXPECT_EQ(table.blocks[0], -1);
  EXPECT_EQ(table.blocks[1], -1);
  EXPECT_EQ(manager.num_used_blocks(), 2);
  EXPECT_EQ(manager.page_table(table)[1].block, -1);
  manager.release_unseen(table, 16);  // sees 12 to 16
  EXPECT_EQ(manager.num_used_blocks(), 1);
  EXPECT_TRUE(intact(manager, {&table}));
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_used_blocks(), 0);
  EXPECT_TRUE(intact(manager, {}));
}

TEST(BlockManager, ResetForgetsAndWaitsForUsers) {
  BlockManager manager(8, 4, true);
  BlockTable table;
  ASSERT_TRUE(manager.grow(table, 8));
  manager.index_computed(table, counting(8), 8, "");
  EXPECT_FALSE(manager.reset_prefix_cache());
  EXPECT_EQ(manager.match(counting(8), "").blocks.size(), 2u);
  manager.shrink(table, 0);
  EXPECT_TRUE(manager.reset_prefix_cache());
  EXPECT_TRUE(manager.match(counting(8), "").blocks.empty());
  EXPECT_EQ(manager.num_free_blocks(), 8);
  EXPECT_TRUE(intact(manager, {}));
}

// Random sequences over a small alphabet, so that prefixes collide often. `contents` models the
// memory: what each physical block was last written with. A match must never point at a block that
// holds anything else.
TEST(BlockManager, RandomLivesKeepContentsAndCountsRight) {
  struct Life {
    std::vector<TokenId> ids;
    BlockTable table;
    int64_t computed = 0;
  };
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(rng.next_u64() % n); };
    const int64_t block_size = 1 + below(5);
    BlockManager manager(4 + below(30), block_size, seed % 4 != 0);
    std::vector<std::vector<TokenId>> contents(manager.num_blocks());
    std::vector<std::unique_ptr<Life>> lives;
    const auto write = [&](Life& life, int64_t end) {  // as a forward would
      for (; life.computed < end; ++life.computed) {
        auto& block = contents[life.table.blocks[life.computed / block_size]];
        block.resize(life.computed % block_size);
        block.push_back(life.ids[life.computed]);
      }
      manager.index_computed(life.table, life.ids, life.computed, "");
    };
    for (int step = 0; step < 400; ++step) {
      const int64_t choice = below(10);
      if (choice < 3) {
        auto life = std::make_unique<Life>();
        life->ids.resize(1 + below(5 * block_size));
        for (TokenId& id : life->ids) id = static_cast<TokenId>(below(2));
        const auto match = manager.match(life->ids, "");
        const auto length = static_cast<int64_t>(life->ids.size());
        if (manager.peak_blocks(length, length) - match.num_used > manager.num_available_blocks())
          continue;
        manager.acquire(life->table, match);
        life->computed = static_cast<int64_t>(match.blocks.size()) * block_size;
        ASSERT_TRUE(manager.grow(life->table, length));
        write(*life, length);
        lives.push_back(std::move(life));
      } else if (!lives.empty() && choice < 7) {
        Life& life = *lives[below(static_cast<int64_t>(lives.size()))];
        std::vector<BlockCopy> copies;
        if (!manager.grow(life.table, life.computed, {life.computed + 1, life.computed + 1},
                          copies))
          continue;
        for (const BlockCopy& copy : copies) contents[copy.destination] = contents[copy.source];
        life.ids.push_back(static_cast<TokenId>(below(2)));
        write(life, life.computed + 1);
      } else if (!lives.empty() && choice < 8) {
        Life& parent = *lives[below(static_cast<int64_t>(lives.size()))];
        lives.push_back(
            std::make_unique<Life>(Life{parent.ids, manager.fork(parent.table), parent.computed}));
      } else if (!lives.empty()) {
        const int64_t gone = below(static_cast<int64_t>(lives.size()));
        manager.shrink(lives[gone]->table, 0);
        lives.erase(lives.begin() + gone);
      }
      std::vector<const BlockTable*> tables;
      for (const auto& life : lives) {
        tables.push_back(&life->table);
        for (int64_t i = 0; i < life->computed; ++i) {
          const auto& block = contents[life->table.blocks[i / block_size]];
          ASSERT_LT(i % block_size, static_cast<int64_t>(block.size()));
          ASSERT_EQ(block[i % block_size], life->ids[i]) << "seed " << seed << " step " << step;
        }
      }
      ASSERT_TRUE(manager.check_integrity(tables)) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace octavo::engine
