// Drafts get what is left of a step and of the blocks, and leave nothing behind.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "unit/engine/scheduler_world.h"

namespace octavo::engine {
namespace {

SchedulerConfig with_rows(int64_t max_num_seqs, int64_t max_num_batched_tokens,
                          int64_t max_logit_rows) {
  SchedulerConfig config = config_of(max_num_seqs, max_num_batched_tokens);
  config.max_logit_rows = max_logit_rows;
  return config;
}

int64_t drafts_of(const Plan& plan) {
  int64_t count = 0;
  for (const ScheduledSlice& slice : plan.slices) count += slice.num_draft_tokens;
  return count;
}

TEST(SchedulerDrafts, RightOnesAreTokensWithoutAStep) {
  SchedulerWorld world(with_rows(4, 32, 32), 100);
  Sequence& sequence = world.add(6, 10);
  world.step();
  world.draft(sequence, 3, true);
  const Plan plan = world.step();
  EXPECT_EQ(tokens_of(plan, sequence), 4);
  EXPECT_EQ(plan.num_logit_rows, 4);
  EXPECT_EQ(sequence.num_tokens(), 11);
  EXPECT_EQ(sequence.num_pending_tokens(), 1);
}

TEST(SchedulerDrafts, AreNotComputedBeyondTheLastToken) {
  SchedulerWorld world(with_rows(4, 32, 32), 100);
  Sequence& sequence = world.add(6, 4);
  world.step();
  world.draft(sequence, 5, true);
  EXPECT_EQ(drafts_of(world.step()), 2);
  EXPECT_TRUE(world.is_done(sequence));
}

TEST(SchedulerDrafts, DoNotKeepANewRequestOut) {
  SchedulerWorld world(with_rows(8, 32, 12), 100);
  Sequence* const running[] = {&world.add(6, 60), &world.add(6, 60), &world.add(6, 60)};
  world.step();
  for (Sequence* sequence : running) world.draft(*sequence, 3, true);
  EXPECT_EQ(world.step().num_logit_rows, 12);
  const Sequence& last = world.add(6, 60);
  for (Sequence* sequence : running) world.draft(*sequence, 3, true);
  const Plan plan = world.step();
  EXPECT_EQ(tokens_of(plan, last), 6);
  EXPECT_EQ(last.num_tokens(), 7);
  EXPECT_EQ(drafts_of(plan), 12 - 4);
}

TEST(SchedulerDrafts, DoNotHoldUpAPromptThatWantsLogprobs) {
  SchedulerWorld world(with_rows(4, 64, 6), 100);
  Sequence* const running[] = {&world.add(4, 60), &world.add(4, 60), &world.add(4, 60)};
  world.step();
  Sequence& prompt = world.add(20, 10);
  prompt.first_logit_position = 0;
  for (const int64_t expected : {3, 3, 3, 3, 3, 3, 2}) {
    for (Sequence* sequence : running) world.draft(*sequence, 3, true);
    const Plan plan = world.step();
    EXPECT_EQ(tokens_of(plan, prompt), expected);
    EXPECT_EQ(drafts_of(plan), 3 - expected);
  }
  for (Sequence* sequence : running) world.draft(*sequence, 3, true);
  EXPECT_EQ(drafts_of(world.step()), 2);
}

TEST(SchedulerDrafts, BlocksOfWrongOnesAreGivenBack) {
  SchedulerWorld world(with_rows(4, 64, 16), 10);
  Sequence& sequence = world.add(7, 30);
  world.step();
  EXPECT_EQ(world.blocks().num_used_blocks(), 2);
  world.draft(sequence, 9, false);
  const Plan plan = world.scheduler().schedule();
  EXPECT_EQ(drafts_of(plan), 9);
  EXPECT_EQ(world.blocks().num_used_blocks(), 5);
  world.finish(plan);
  EXPECT_EQ(sequence.num_tokens(), 9);
  EXPECT_EQ(world.blocks().num_used_blocks(), 3);
}

// But what the last one holds further is its own.
TEST(SchedulerDrafts, TakeNoBlockWhileSomeoneWaits) {
  SchedulerWorld world(with_rows(1, 64, 16), 20);
  Sequence& sequence = world.add(5, 30);
  world.step();
  world.draft(sequence, 6, false);
  EXPECT_EQ(drafts_of(world.step()), 6);
  const Sequence& next = world.add(5, 30);
  for (const int64_t expected : {1, 0, 3}) {
    world.draft(sequence, 6, false);
    EXPECT_EQ(drafts_of(world.step()), expected);
    EXPECT_EQ(next.state, SequenceState::kWaiting);
  }
}

// With drafts of any number, right or wrong, everything ends; nobody is preempted for them.
TEST(SchedulerDrafts, RandomLoadsEnd) {
  int64_t num_drafts = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(rng.next_u64() % n); };
    const int64_t num_blocks = 5 + below(40);
    const int64_t max_num_seqs = 1 + below(6);
    const SchedulerConfig config =
        with_rows(max_num_seqs, 6 + below(40), max_num_seqs + 2 + below(12));
    SchedulerWorld world(config, num_blocks);
    std::vector<Sequence*> alive;
    for (int step = 0; step < 5000; ++step) {
      if (alive.size() < 12 && below(3) == 0) {
        const int64_t total = 2 + below(num_blocks * kBlockSize - 2);
        const int64_t prompt = 1 + below(total - 1);
        alive.push_back(&world.add(prompt, total - prompt));
        if (below(3) == 0) alive.back()->first_logit_position = 0;
      }
      for (Sequence* sequence : world.scheduler().running()) {
        if (sequence->num_pending_tokens() == 1) world.draft(*sequence, below(9), below(2) == 0);
      }
      num_drafts += drafts_of(world.step());
      if (HasFailure()) FAIL() << "seed " << seed << " step " << step;
      const Scheduler& scheduler = world.scheduler();
      if (alive.size() == 12 && scheduler.num_running() + scheduler.num_waiting() == 0) break;
    }
    for (const Sequence* sequence : alive) EXPECT_TRUE(world.is_done(*sequence)) << seed;
    EXPECT_EQ(world.blocks().num_used_blocks(), 0) << seed;
  }
  EXPECT_GT(num_drafts, 1000);
}

}  // namespace
}  // namespace octavo::engine
