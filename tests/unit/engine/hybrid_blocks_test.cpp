// Block tables of several groups of layers over one pool of blocks, against a plain model of the
// memory: what each block was last written with, and which layers a token looks at.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/rng.h"
#include "engine/block_manager.h"
#include "support/counting.h"

namespace octavo::engine {
namespace {

using testing::counting;

constexpr int64_t kHybridBlockSize = 4;

int64_t held_by(const BlockTable& table) {
  return static_cast<int64_t>(table.blocks.size()) -
         std::count(table.blocks.begin(), table.blocks.end(), -1);
}

TEST(HybridBlocks, OnlyGroupsThatKeepAllReserveBeyondAStep) {
  BlockManager manager(100, kHybridBlockSize, false, {{}, {.window = 6}, {.window = 6}});
  BlockTable table;
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(manager.grow(table, 0, {8, 40}, copies));
  EXPECT_EQ(table.blocks.size(), 30u);
  EXPECT_EQ(held_by(table), 10 + 2 * 2);
  manager.release_unseen(table, 8);  // sees 3 to 8
  EXPECT_EQ(held_by(table), 14);
  ASSERT_TRUE(manager.grow(table, 8, {16, 40}, copies));
  manager.release_unseen(table, 16);  // sees 11 to 16
  EXPECT_EQ(held_by(table), 10 + 2 * 2);
  EXPECT_EQ(manager.num_used_blocks(), 14);
  EXPECT_GE(table.blocks[0], 0);   // page 0 of the group that keeps all
  EXPECT_EQ(table.blocks[1], -1);  // and of one with a window
  const std::vector<PageTableRow> rows = manager.page_table(table);
  ASSERT_EQ(rows.size(), 30u);
  EXPECT_EQ(rows[4].page, 1);
  EXPECT_EQ(rows[4].group, 1);
  EXPECT_EQ(rows[4].block, -1);
  EXPECT_EQ(rows[3].reference_count, 1);
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_free_blocks(), 100);
}

TEST(HybridBlocks, GrowingCountsTheBlocksOfAllGroups) {
  BlockManager manager(7, kHybridBlockSize, false, {{}, {.chunk = 8}});
  BlockTable table;
  std::vector<BlockCopy> copies;
  EXPECT_FALSE(manager.grow(table, 0, {4, 28}, copies));  // 7 and 1
  EXPECT_TRUE(table.blocks.empty());
  ASSERT_TRUE(manager.grow(table, 0, {4, 24}, copies));
  EXPECT_EQ(manager.num_available_blocks(), 0);
  EXPECT_FALSE(manager.grow(table, 4, {8, 24}, copies));
  EXPECT_EQ(held_by(table), 7);
}

TEST(HybridBlocks, AForkCopiesTheTailOfEveryGroup) {
  BlockManager manager(16, kHybridBlockSize, false, {{}, {.window = 3}});
  BlockTable parent;
  ASSERT_TRUE(manager.grow(parent, 10));
  manager.release_unseen(parent, 10);  // sees 8 to 10
  BlockTable child = manager.fork(parent);
  EXPECT_EQ(manager.num_used_blocks(), 3 + 1);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(manager.grow(child, 10, {11, 11}, copies));
  ASSERT_EQ(copies.size(), 2u);
  for (int64_t group = 0; group < 2; ++group) {
    EXPECT_EQ(copies[group].source, parent.blocks[4 + group]);
    EXPECT_EQ(copies[group].destination, child.blocks[4 + group]);
    EXPECT_NE(copies[group].source, copies[group].destination);
  }
  EXPECT_TRUE(manager.check_integrity(std::vector<const BlockTable*>{&parent, &child}));
}

// A prompt of ten pages, whose window group gives back as it goes.
TEST(HybridBlocks, AHitNeedsAllOfOneGroupAndTheWindowOfTheOther) {
  BlockManager manager(30, kHybridBlockSize, true, {{}, {.window = 9}});
  const auto ids = counting(40);
  BlockTable table;
  for (int64_t end = 4; end <= 40; end += 4) {
    ASSERT_TRUE(manager.grow(table, end));
    manager.index_computed(table, ids, end, "");
    manager.release_unseen(table, end);
  }
  manager.shrink(table, 0);
  EXPECT_EQ(manager.num_cached_blocks(), 20);
  // Reused in this order: the free ones, then what the window gave back.
  BlockTable others;
  ASSERT_TRUE(manager.grow(others, 4 * 9));  // 10 free, 8 of the window
  PrefixMatch match = manager.match(ids, "");
  ASSERT_EQ(manager.num_tokens_of(match), 40);
  for (int64_t page = 0; page < 10; ++page) {
    EXPECT_GE(match.blocks[2 * page], 0);
    EXPECT_EQ(match.blocks[2 * page + 1] >= 0, page >= 8) << page;
  }
  // A shorter text needs a window that is gone.
  EXPECT_EQ(manager.num_tokens_of(manager.match(std::span(ids).first(39), "")), 0);
  // Without the last page, whose blocks go first, nothing that could go on is left of the window.
  ASSERT_TRUE(manager.grow(others, 4 * 10));
  EXPECT_EQ(manager.num_tokens_of(manager.match(ids, "")), 0);
}

// Sequences over two tokens, so that prefixes meet often; they grow, fork, end and are preempted.
class Lives {
 public:
  Lives(uint64_t seed, std::vector<AttentionSpan> groups)
      : rng_(seed),
        groups_(std::move(groups)),
        block_size_(1 + below(5)),
        manager_((4 + below(30)) * static_cast<int64_t>(groups_.size()), block_size_, seed % 4 != 0,
                 groups_),
        contents_(manager_.num_blocks()) {}

  void step() {
    const int64_t choice = below(10);
    if (choice < 3) begin();
    if (choice >= 3 && choice < 7 && !lives_.empty()) go_on(any());
    if (choice == 7 && !lives_.empty()) fork(any());
    if (choice > 7 && !lives_.empty()) end();
    check();
  }

  int64_t num_hits() const { return num_hits_; }
  int64_t num_given_back() const { return num_given_back_; }

 private:
  struct Life {
    std::vector<TokenId> ids;
    BlockTable table;
    int64_t computed = 0;
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_.next_u64() % n); }
  Life& any() { return *lives_[below(static_cast<int64_t>(lives_.size()))]; }
  int64_t num_groups() const { return static_cast<int64_t>(groups_.size()); }
  auto& content(const Life& life, int64_t position, int64_t group) {
    const int64_t index = position / block_size_ * num_groups() + group;
    const int32_t block = life.table.blocks.at(index);
    EXPECT_GE(block, 0) << "position " << position << " group " << group;
    return contents_.at(block);
  }

  void begin() {
    auto life = std::make_unique<Life>();
    life->ids.resize(1 + below(8 * block_size_));
    for (TokenId& id : life->ids) id = static_cast<TokenId>(below(2));
    const PrefixMatch match = manager_.match(life->ids, "");
    manager_.acquire(life->table, match);
    life->computed = manager_.num_tokens_of(match);
    num_hits_ += life->computed > 0 ? 1 : 0;
    lives_.push_back(std::move(life));
    while (lives_.back()->computed < static_cast<int64_t>(lives_.back()->ids.size())) {
      if (!compute(*lives_.back())) return drop(lives_.size() - 1);
    }
  }

  void go_on(Life& life) {
    life.ids.push_back(static_cast<TokenId>(below(2)));
    if (!compute(life)) life.ids.pop_back();
  }

  // As a scheduler and a forward would; each group's block is written with what it is for.
  bool compute(Life& life) {
    const auto length = static_cast<int64_t>(life.ids.size());
    const int64_t step_end = std::min(length, life.computed + 1 + below(2 * block_size_));
    std::vector<BlockCopy> copies;
    if (!manager_.grow(life.table, life.computed, {step_end, length}, copies)) return false;
    for (const BlockCopy& copy : copies) contents_[copy.destination] = contents_[copy.source];
    for (int64_t at = life.computed; at < step_end; ++at) {
      for (int64_t group = 0; group < num_groups(); ++group) {
        check_seen(life, at, group);
        auto& block = content(life, at, group);
        block.resize(at % block_size_);
        block.push_back({life.ids[at], at, group});
      }
    }
    life.computed = step_end;
    manager_.index_computed(life.table, life.ids, life.computed, "");
    const int64_t held = manager_.num_used_blocks();
    manager_.release_unseen(life.table, life.computed);
    num_given_back_ += held - manager_.num_used_blocks();
    return true;
  }

  // All that a token at `position` looks at must be there, and be this sequence's.
  void check_seen(const Life& life, int64_t position, int64_t group) {
    for (int64_t at = groups_[group].first_visible(position); at < position; ++at) {
      const auto& block = content(life, at, group);
      ASSERT_LT(at % block_size_, static_cast<int64_t>(block.size()));
      ASSERT_EQ(block[at % block_size_], (Slot{life.ids[at], at, group}));
    }
  }

  void fork(const Life& parent) {
    lives_.push_back(
        std::make_unique<Life>(Life{parent.ids, manager_.fork(parent.table), parent.computed}));
  }

  void end() { drop(below(static_cast<int64_t>(lives_.size()))); }
  void drop(size_t index) {
    manager_.shrink(lives_[index]->table, 0);
    lives_.erase(lives_.begin() + static_cast<int64_t>(index));
  }

  void check() {
    std::vector<const BlockTable*> tables;
    for (const auto& life : lives_) {
      tables.push_back(&life->table);
      for (int64_t group = 0; group < num_groups(); ++group) {
        check_seen(*life, life->computed, group);
      }
    }
    ASSERT_TRUE(manager_.check_integrity(tables));
    ASSERT_EQ(
        manager_.num_used_blocks() + manager_.num_cached_blocks() + manager_.num_free_blocks(),
        manager_.num_blocks());
  }

  struct Slot {
    TokenId id;
    int64_t position;
    int64_t group;
    bool operator==(const Slot&) const = default;
  };

  Rng rng_;
  std::vector<AttentionSpan> groups_;
  int64_t block_size_;
  BlockManager manager_;
  std::vector<std::vector<Slot>> contents_;  // [num_blocks]
  std::vector<std::unique_ptr<Life>> lives_;
  int64_t num_hits_ = 0;
  int64_t num_given_back_ = 0;
};

TEST(HybridBlocks, RandomLivesSeeWhatTheyWrote) {
  const std::vector<std::vector<AttentionSpan>> kinds = {
      {{}, {.window = 7}},
      {{.window = 7}, {.window = 7}, {}, {.window = 7}},
      {{.chunk = 6}, {}, {.chunk = 6}},
      {{.window = 3}, {.chunk = 10}},
      {{}, {}}};
  for (const auto& groups : kinds) {
    int64_t num_hits = 0, num_given_back = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Lives lives(seed, groups);
      for (int step = 0; step < 300 && !HasFailure(); ++step) lives.step();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " of " << groups.size() << " groups";
      num_hits += lives.num_hits();
      num_given_back += lives.num_given_back();
    }
    EXPECT_GT(num_hits, 0);
    EXPECT_EQ(num_given_back > 0, groups[0].bounded() || groups[1].bounded());
  }
}

}  // namespace
}  // namespace octavo::engine
