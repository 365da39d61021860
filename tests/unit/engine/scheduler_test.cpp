// The scheduler alone: no model, a token is whatever the test says.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "unit/engine/scheduler_world.h"

namespace octavo::engine {
namespace {

TEST(Scheduler, APromptIsCutToTheBudgetAndThenDecoded) {
  SchedulerWorld world(config_of(4, 8), 100);
  const Sequence& sequence = world.add(20, 3);
  EXPECT_EQ(tokens_of(world.step(), sequence), 8);
  EXPECT_EQ(tokens_of(world.step(), sequence), 8);
  const Plan last_chunk = world.step();
  EXPECT_EQ(last_chunk.num_tokens, 4);
  EXPECT_EQ(last_chunk.num_logit_rows, 1);
  EXPECT_EQ(tokens_of(world.step(), sequence), 1);
  EXPECT_EQ(tokens_of(world.step(), sequence), 1);
  EXPECT_TRUE(world.is_done(sequence));
  EXPECT_EQ(world.blocks().num_used_blocks(), 0);
  EXPECT_TRUE(world.step().slices.empty());
}

TEST(Scheduler, DecodesAreNeverHeldUpByPrompts) {
  SchedulerWorld world(config_of(8, 8), 500);
  const Sequence& a = world.add(100, 50);
  while (a.num_tokens() == 100) world.step();
  const Sequence& b = world.add(300, 5);
  world.step();
  const Sequence& c = world.add(4, 50);
  while (c.num_tokens() == 4) world.step();
  // b was there before c and could take every step whole.
  for (int i = 0; i < 10; ++i) {
    const Plan plan = world.step();
    EXPECT_EQ(tokens_of(plan, a), 1);
    EXPECT_EQ(tokens_of(plan, c), 1);
    EXPECT_EQ(tokens_of(plan, b), 6);
  }
}

TEST(Scheduler, AShortPromptSharesTheStepsOfALongOne) {
  SchedulerWorld world(config_of(8, 8), 500);
  const Sequence& longer = world.add(1000, 5);
  EXPECT_EQ(tokens_of(world.step(), longer), 8);
  const Sequence& shorter = world.add(4, 5);
  const Plan plan = world.step();
  EXPECT_EQ(tokens_of(plan, longer), 4);
  EXPECT_EQ(tokens_of(plan, shorter), 4);
  EXPECT_EQ(shorter.num_tokens(), 5);
}

TEST(Scheduler, AThresholdBoundsTheChunksOfAPrompt) {
  SchedulerConfig config = config_of(8, 64);
  config.long_prefill_token_threshold = 10;
  SchedulerWorld world(config, 500);
  const Sequence& sequence = world.add(100, 5);
  EXPECT_EQ(tokens_of(world.step(), sequence), 10);
}

TEST(Scheduler, RowsOfPromptLogprobsAreBounded) {
  SchedulerWorld world(config_of(4, 64), 100);  // 6 rows of logits
  Sequence& sequence = world.add(20, 1);
  sequence.first_logit_position = 0;
  for (const int64_t expected : {6, 6, 6, 2}) {
    const Plan plan = world.step();
    EXPECT_EQ(plan.num_tokens, expected);
    EXPECT_EQ(plan.num_logit_rows, expected);
  }
}

TEST(Scheduler, TheYoungestIsPreemptedAndTheOldestGetsOn) {
  SchedulerWorld world(config_of(4, 64), 8);
  const Sequence& a = world.add(12, 20);  // 8 blocks at the end: all there are
  const Sequence& b = world.add(12, 20);
  world.step();
  EXPECT_EQ(world.scheduler().num_running(), 2);
  while (!world.is_done(a)) {
    world.step();
    EXPECT_EQ(a.num_preemptions, 0);
  }
  EXPECT_GE(b.num_preemptions, 1);
  while (!world.is_done(b)) world.step();
  EXPECT_EQ(world.scheduler().totals().preemptions, b.num_preemptions);
  // The tokens that b had computed were partly still cached, and are not reported as hits.
  EXPECT_EQ(world.scheduler().totals().prefix_cache_hits, 0);
}

TEST(Scheduler, PriorityComesFirstInBothDirections) {
  SchedulerConfig config = config_of(2, 64);
  config.scheduling_policy = SchedulingPolicy::kPriority;
  SchedulerWorld world(config, 8);
  const Sequence& late = world.add(12, 20, 5);
  const Sequence& urgent = world.add(12, 20, -5);
  const Sequence& third = world.add(4, 4, 0);
  world.step();
  EXPECT_EQ(late.state, SequenceState::kWaiting);
  EXPECT_EQ(urgent.state, SequenceState::kRunning);
  EXPECT_EQ(third.state, SequenceState::kRunning);
  while (!world.is_done(urgent)) world.step();
  EXPECT_EQ(urgent.num_preemptions, 0);
  while (!world.is_done(late)) world.step();
}

TEST(Scheduler, AdmissionLeavesRoomToGrow) {
  SchedulerConfig config = config_of(8, 64);
  config.admission_factor = 1.5;
  SchedulerWorld world(config, 10);
  world.add(20, 20);                          // 5 blocks
  const Sequence& second = world.add(16, 4);  // 4 blocks, 6 with growth
  const Sequence& third = world.add(12, 4);   // 3 blocks, 5 with growth
  world.step();
  EXPECT_EQ(second.state, SequenceState::kWaiting);
  EXPECT_EQ(third.state, SequenceState::kRunning);
  EXPECT_EQ(second.num_overtakes, 1);
}

TEST(Scheduler, WhatCanNeverFitIsRefusedWithTheNumbers) {
  SchedulerWorld world(config_of(4, 64), 10);
  const Status status = world.scheduler().check_fits(1, 41);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"41", "11", "10"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_TRUE(world.scheduler().check_fits(4, 40).ok());
  EXPECT_EQ(world.scheduler().check_fits(5, 40).code(), StatusCode::kInvalidArgument);
}

// Short prompts come without end; the long one needs the whole cache.
TEST(Scheduler, ALongPromptIsOvertakenButNotStarved) {
  SchedulerWorld world(config_of(4, 64), 20);
  world.add(8, 8);
  world.add(8, 8);
  world.step();
  const Sequence& big = world.add(78, 2);
  int64_t finished_before = 0;
  for (int step = 0; step < 2000 && !world.is_done(big); ++step) {
    if (world.scheduler().num_waiting() < 4) world.add(4, 6);
    if (big.state == SequenceState::kWaiting) ++finished_before;
    world.step();
  }
  EXPECT_TRUE(world.is_done(big));
  EXPECT_GT(big.num_overtakes, 10);
  EXPECT_LE(big.num_overtakes, 64 + 4);
}

TEST(Scheduler, ForksAreSeatedBeforeTheyExist) {
  SchedulerWorld world(config_of(4, 64), 100);
  Sequence& parent = world.add(10, 5);
  parent.num_forks = 2;
  const Sequence& next = world.add(10, 5);
  const Sequence& last = world.add(10, 5);
  world.step();
  EXPECT_EQ(next.state, SequenceState::kRunning);
  EXPECT_EQ(last.state, SequenceState::kWaiting);
}

TEST(Scheduler, ForkedSequencesShareTheirPromptAndCopyOnWrite) {
  SchedulerWorld world(config_of(4, 64), 100);
  auto parent = std::make_unique<Sequence>();
  parent->token_ids.assign(10, 7);
  parent->max_num_tokens = 30;
  parent->num_forks = 2;
  parent->first_logit_position = 9;
  Scheduler& scheduler = world.scheduler();
  scheduler.add(*parent);
  Plan plan = scheduler.schedule();
  parent->num_computed_tokens = 10;
  scheduler.complete(plan);
  Sequence children[2];
  for (Sequence& child : children) {
    child.token_ids = parent->token_ids;
    child.max_num_tokens = 30;
    scheduler.fork(*parent, child);
  }
  EXPECT_EQ(world.blocks().num_used_blocks(), 3);
  parent->token_ids.push_back(1);
  children[0].token_ids.push_back(2);
  children[1].token_ids.push_back(3);
  plan = scheduler.schedule();
  EXPECT_EQ(plan.slices.size(), 3u);
  EXPECT_EQ(plan.copies.size(), 2u);
  EXPECT_EQ(world.blocks().num_used_blocks(), 5);
  for (Sequence* sequence : {parent.get(), &children[0], &children[1]}) scheduler.remove(*sequence);
  EXPECT_EQ(world.blocks().num_used_blocks(), 0);
  EXPECT_EQ(scheduler.num_running(), 0);
}

// Everything ends, whatever comes and goes; SchedulerWorld checks the books after every step. The
// same calls give the same plans.
TEST(Scheduler, RandomLoadsEndAndRepeat) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<int64_t> traces[2];
    for (std::vector<int64_t>& trace : traces) {
      Rng rng(seed);
      const auto below = [&](int64_t n) { return static_cast<int64_t>(rng.next_u64() % n); };
      SchedulerConfig config = config_of(1 + below(6), 6 + below(40));
      config.admission_factor = 1 + 0.1 * static_cast<double>(below(5));
      config.watermark = 0.01 * static_cast<double>(below(10));
      config.long_prefill_token_threshold = below(3) == 0 ? 1 + below(20) : 0;
      if (below(2) == 0) config.scheduling_policy = SchedulingPolicy::kPriority;
      const int64_t num_blocks = 5 + below(40);
      SchedulerWorld world(config, num_blocks);
      std::vector<Sequence*> alive;
      int64_t to_come = 12;
      for (int step = 0; step < 5000; ++step) {
        if (to_come > 0 && below(3) == 0) {
          const int64_t total = 2 + below(num_blocks * kBlockSize - 2);
          const int64_t prompt = 1 + below(total - 1);
          alive.push_back(&world.add(prompt, total - prompt, static_cast<int32_t>(below(3))));
          --to_come;
        }
        if (!alive.empty() && below(40) == 0) {
          Sequence* gone = alive[below(static_cast<int64_t>(alive.size()))];
          if (!world.is_done(*gone)) world.remove(*gone);
        }
        const Plan plan = world.step();
        for (const ScheduledSlice& slice : plan.slices) trace.push_back(slice.num_tokens);
        if (HasFailure()) FAIL() << "seed " << seed << " step " << step;
        if (to_come == 0 && world.scheduler().num_running() + world.scheduler().num_waiting() == 0)
          break;
      }
      for (const Sequence* sequence : alive) EXPECT_TRUE(world.is_done(*sequence)) << seed;
      EXPECT_EQ(world.blocks().num_used_blocks(), 0) << seed;
    }
    EXPECT_EQ(traces[0], traces[1]);
  }
}

}  // namespace
}  // namespace octavo::engine
