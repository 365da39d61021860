// Models whose layers all have a window or a chunk: what they no longer see is given back, and what
// the prefix cache has of them need only be as much as they see.
#include "model/attention_span.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "support/counting.h"

namespace octavo::engine {
namespace {

using testing::counting;

constexpr int64_t kSpanBlockSize = 4;

TEST(AttentionSpan, PeakIsTheMostThatAnyScheduleHolds) {
  for (const AttentionSpan span : {AttentionSpan{.window = 1}, AttentionSpan{.window = 10},
                                   AttentionSpan{.chunk = 12}, AttentionSpan{}}) {
    for (const int64_t step : {1, 3, 7}) {
      for (const int64_t block_size : {1, 3, 4, 16}) {
        constexpr int64_t kTokens = 100;
        int64_t most = 0;
        for (int64_t begin = 0; begin < kTokens; ++begin) {
          const int64_t end = std::min(kTokens, begin + step);
          const int64_t first_page = span.first_visible(begin) / block_size;
          most = std::max(most, (end + block_size - 1) / block_size - first_page);
        }
        const int64_t peak = span.peak_blocks(kTokens, step, block_size);
        EXPECT_GE(peak, most);
        EXPECT_LE(peak, most + 2);  // no more than the ends of two blocks
      }
    }
  }
}

// A prompt of ten full blocks, computed and gone; then some of its blocks are used for others.
class CachedPrompt {
 public:
  explicit CachedPrompt(AttentionSpan span, std::string salt = "")
      : manager(16, kSpanBlockSize, true, {span}), ids(counting(40)), salt_(std::move(salt)) {
    BlockTable table;
    for (int64_t end = 4; end <= 40; end += 4) {
      EXPECT_TRUE(manager.grow(table, end));
      manager.index_computed(table, ids, end, salt_);
      manager.release_unseen(table, end);
    }
    manager.shrink(table, 0);
    EXPECT_EQ(manager.num_cached_blocks(), 10);
  }

  PrefixMatch match() const { return manager.match(ids, salt_); }

  // Takes all free blocks and `count` cached ones, those first that were given back first.
  void evict(int64_t count) {
    const int64_t blocks = manager.num_free_blocks() + count;
    ASSERT_TRUE(
        manager.grow(others_, others_.blocks.size() * kSpanBlockSize + blocks * kSpanBlockSize));
  }

  void give_back() { manager.shrink(others_, 0); }

  BlockManager manager;
  std::vector<TokenId> ids;

 private:
  std::string salt_;
  BlockTable others_;
};

TEST(WindowPrefix, NeedsOnlyTheBlocksInsideTheWindow) {
  CachedPrompt prompt({.window = 9});  // from position 40: 32 to 39, two blocks
  for (int64_t evicted = 0; evicted <= 7; ++evicted) {
    const PrefixMatch match = prompt.match();
    ASSERT_EQ(match.blocks.size(), 10u) << evicted;
    EXPECT_EQ(std::count(match.blocks.begin(), match.blocks.end(), -1), 8);
    EXPECT_EQ(match.blocks[7], -1);
    EXPECT_GE(match.blocks[8], 0);
    EXPECT_GE(match.blocks[9], 0);
    prompt.evict(1);
  }
}

TEST(WindowPrefix, AShorterOneIsFoundWhereTheWindowIsBroken) {
  // What comes last is given back last and from its end: the tenth block goes before the ninth.
  CachedPrompt prompt({.window = 9});
  prompt.evict(8);
  ASSERT_EQ(prompt.match().blocks.size(), 10u);
  prompt.evict(1);  // only one of two is left
  EXPECT_TRUE(prompt.match().blocks.empty());

  CachedPrompt whole({});
  whole.evict(1);
  EXPECT_EQ(whole.match().blocks.size(), 9u);
}

TEST(WindowPrefix, WhatIsComputedAgainJoinsTheChainThatIsRemembered) {
  CachedPrompt prompt({.window = 9}, "salt");
  prompt.evict(8);
  prompt.give_back();
  BlockTable table;
  ASSERT_TRUE(prompt.manager.grow(table, 8));
  prompt.manager.index_computed(table, prompt.ids, 8, "salt");
  prompt.manager.shrink(table, 0);
  const PrefixMatch match = prompt.match();
  EXPECT_EQ(match.blocks.size(), 10u);
  EXPECT_EQ(prompt.manager.match(std::span(prompt.ids).first(9), "salt").blocks.size(), 2u);
  EXPECT_TRUE(prompt.manager.match(prompt.ids, "").blocks.empty());
  EXPECT_TRUE(prompt.manager.match(prompt.ids, "other").blocks.empty());
  EXPECT_TRUE(prompt.manager.reset_prefix_cache());
  EXPECT_TRUE(prompt.match().blocks.empty());
}

TEST(WindowPrefix, AChunksBeginningNeedsNothing) {
  CachedPrompt prompt({.chunk = 20});
  prompt.evict(10);
  const PrefixMatch match = prompt.match();
  EXPECT_EQ(match.blocks.size(), 10u);  // position 40 begins a chunk
  EXPECT_EQ(std::count(match.blocks.begin(), match.blocks.end(), -1), 10);
  BlockTable table;
  prompt.manager.acquire(table, match);
  EXPECT_EQ(table.num_indexed_pages, 10);
  prompt.give_back();
  std::vector<TokenId> more = prompt.ids;
  for (TokenId id = 500; id < 504; ++id) more.push_back(id);
  ASSERT_TRUE(prompt.manager.grow(table, 44));
  prompt.manager.index_computed(table, more, 44, "");
  prompt.manager.release_unseen(table, 44);
  EXPECT_EQ(prompt.manager.match(more, "").blocks.size(), 11u);
  prompt.manager.shrink(table, 0);
  EXPECT_EQ(prompt.manager.num_used_blocks(), 0);
}

// Against a rule that is tried for every length: of prompts over few tokens, so that chains branch
// and meet.
TEST(WindowPrefix, RandomChainsMatchAsFarAsTheRuleSays) {
  Rng rng(5);
  const auto below = [&rng](int64_t n) { return static_cast<int64_t>(rng.next_u64() % n); };
  int64_t num_computed = 0;
  int64_t num_whole = 0;
  for (int round = 0; round < 200; ++round) {
    const AttentionSpan span = round % 3 == 0   ? AttentionSpan{.chunk = 1 + below(20)}
                               : round % 3 == 1 ? AttentionSpan{.window = 1 + below(20)}
                                                : AttentionSpan{};
    BlockManager manager(6 + below(12), 2, true, {span});
    std::vector<BlockTable> tables;
    // The tokens up to the end of the block that a block of the manager holds.
    std::vector<std::vector<TokenId>> contents(manager.num_blocks());
    for (int step = 0; step < 60; ++step) {
      std::vector<TokenId> ids(2 + below(24));
      for (TokenId& id : ids) id = static_cast<TokenId>(below(2));
      const PrefixMatch match = manager.match(ids, "");
      const auto pages = static_cast<int64_t>(match.blocks.size());
      for (int64_t page = 0; page < pages; ++page) {
        const bool seen = page >= span.first_visible(2 * pages) / 2;
        ASSERT_EQ(match.blocks[page] >= 0, seen);
        if (!seen) continue;
        ASSERT_EQ(contents[match.blocks[page]],
                  std::vector(ids.begin(), ids.begin() + 2 * (page + 1)));
      }
      BlockTable table;
      manager.acquire(table, match);
      const auto end = static_cast<int64_t>(ids.size());
      if (!manager.grow(table, end)) {
        manager.shrink(table, 0);
        continue;
      }
      for (size_t page = pages; page < table.blocks.size(); ++page) {
        contents[table.blocks[page]].assign(ids.begin(),
                                            ids.begin() + std::min<int64_t>(end, 2 * page + 2));
      }
      manager.index_computed(table, ids, end, "");
      manager.release_unseen(table, end);
      ASSERT_TRUE(manager.check_integrity(std::vector<const BlockTable*>{&table}));
      // All full blocks are there right after they were computed, but that a chain's beginning may
      // have been forgotten while its end was made room for.
      const bool whole = manager.match(ids, "").blocks.size() == ids.size() / 2;
      ASSERT_TRUE(whole || span.bounded());
      ++num_computed;
      num_whole += whole ? 1 : 0;
      manager.shrink(table, 0);
    }
  }
  EXPECT_GT(num_whole, num_computed * 9 / 10);
}

// --- the scheduler
// --------------------------------------------------------------------------------

struct Totals {
  int64_t most_used_blocks = 0;
  int64_t num_steps = 0;
  int64_t cached_tokens = 0;
};

// Computes the sequences to their ends; their answers are arbitrary.
Totals run(const std::vector<AttentionSpan>& groups, int64_t num_blocks,
           const std::vector<std::vector<TokenId>>& prompts, int64_t answer) {
  SchedulerConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 8;
  config.max_logit_rows = 4;
  BlockManager blocks(num_blocks, kSpanBlockSize, true, groups);
  Scheduler scheduler(config, blocks);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (const std::vector<TokenId>& prompt : prompts) {
    auto sequence = std::make_unique<Sequence>();
    sequence->token_ids = prompt;
    sequence->max_num_tokens = static_cast<int64_t>(prompt.size()) + answer;
    sequence->first_logit_position = static_cast<int64_t>(prompt.size()) - 1;
    EXPECT_TRUE(scheduler.check_fits(1, sequence->max_num_tokens).ok());
    scheduler.add(*sequence);
    sequences.push_back(std::move(sequence));
  }
  Totals result;
  for (Plan plan = scheduler.schedule(); !plan.slices.empty(); plan = scheduler.schedule()) {
    ++result.num_steps;
    result.most_used_blocks = std::max(result.most_used_blocks, blocks.num_used_blocks());
    for (const ScheduledSlice& slice : plan.slices) {
      slice.sequence->num_computed_tokens += slice.num_tokens;
      const int64_t room = slice.sequence->block_table.num_filled_pages;
      EXPECT_GE(room * kSpanBlockSize, slice.sequence->num_computed_tokens);
    }
    scheduler.complete(plan);
    for (const ScheduledSlice& slice : plan.slices) {
      Sequence& sequence = *slice.sequence;
      if (sequence.num_pending_tokens() > 0) continue;
      sequence.token_ids.push_back(static_cast<TokenId>(result.num_steps % 1000));
      if (sequence.num_tokens() == sequence.max_num_tokens) scheduler.remove(sequence);
    }
    std::vector<const BlockTable*> tables;
    for (const auto& sequence : sequences) tables.push_back(&sequence->block_table);
    EXPECT_TRUE(blocks.check_integrity(tables));
  }
  EXPECT_EQ(scheduler.num_running() + scheduler.num_waiting(), 0);
  EXPECT_EQ(blocks.num_used_blocks(), 0);
  result.cached_tokens = scheduler.totals().prefix_cache_hits;
  return result;
}

TEST(WindowScheduler, ALongRunHoldsAWindowAndAStep) {
  const AttentionSpan span{.window = 20};
  const int64_t peak = span.peak_blocks(6000, 8, kSpanBlockSize);
  ASSERT_LE(peak, 8);
  const Totals long_run = run({span}, peak, {counting(5000)}, 1000);
  EXPECT_LE(long_run.most_used_blocks, peak);
  EXPECT_EQ(long_run.num_steps, 5000 / 8 + 999);
  // Four at once, in no more than four times that.
  const Totals four =
      run({span}, 4 * peak,
          {counting(500), counting(400, 1000), counting(450, 2000), counting(300, 3000)}, 300);
  EXPECT_LE(four.most_used_blocks, 4 * peak);
}

TEST(WindowScheduler, ChunksAreGivenBackWhole) {
  const AttentionSpan span{.chunk = 16};
  const Totals long_run =
      run({span}, span.peak_blocks(3000, 8, kSpanBlockSize), {counting(2000)}, 1000);
  EXPECT_LE(long_run.most_used_blocks, 7);
}

TEST(WindowScheduler, WithoutABoundNothingIsGivenBack) {
  EXPECT_EQ(run({AttentionSpan()}, 300, {counting(1000)}, 100).most_used_blocks, 275);
}

TEST(WindowScheduler, OnlyLayersThatSeeEverythingKeepALongRunWhole) {
  const std::vector<AttentionSpan> groups = {{.window = 20}, {}, {.chunk = 16}, {.window = 20}};
  const int64_t peak = model::peak_blocks(groups, 6000, 8, kSpanBlockSize);
  ASSERT_LE(peak, 1500 + 3 * 8);
  const Totals long_run = run(groups, peak, {counting(5000)}, 1000);
  EXPECT_LE(long_run.most_used_blocks, peak);
  EXPECT_GE(long_run.most_used_blocks, 1500);
  EXPECT_EQ(long_run.num_steps, 5000 / 8 + 999);
  const Totals four =
      run(groups, peak,
          {counting(500), counting(400, 1000), counting(450, 2000), counting(300, 3000)}, 300);
  EXPECT_LE(four.most_used_blocks, 4 * (model::peak_blocks(groups, 800, 8, kSpanBlockSize)));
}

TEST(WindowScheduler, ALongPromptIsFoundAgain) {
  const AttentionSpan span{.window = 20};
  // Too few blocks for the whole prompt: its beginning is gone when the second one comes.
  const auto prompt = counting(400);
  const Totals both = run({span}, 40, {prompt, counting(1, 7000), prompt}, 40);
  EXPECT_LE(both.most_used_blocks, 40);
}

}  // namespace
}  // namespace octavo::engine
