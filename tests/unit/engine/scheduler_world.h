// A scheduler without a model: sequences with answers of a known length, of which a token is
// whatever comes next, and the checks that hold after every step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "engine/scheduler.h"

namespace octavo::engine {

inline constexpr int64_t kBlockSize = 4;

class SchedulerWorld {
 public:
  SchedulerWorld(const SchedulerConfig& config, int64_t num_blocks)
      : config_(config), blocks_(num_blocks, kBlockSize, true), scheduler_(config, blocks_) {}

  Sequence& add(int64_t prompt, int64_t answer, int32_t priority = 0) {
    auto sequence = std::make_unique<Sequence>();
    for (int64_t i = 0; i < prompt; ++i) sequence->token_ids.push_back(next_token_++);
    sequence->max_num_tokens = prompt + answer;
    sequence->priority = priority;
    sequence->first_logit_position = prompt - 1;
    EXPECT_TRUE(scheduler_.check_fits(1, prompt + answer).ok());
    scheduler_.add(*sequence);
    sequences_.push_back(std::move(sequence));
    return *sequences_.back();
  }

  // Guesses for the next step, all right or all wrong.
  void draft(Sequence& sequence, int64_t num_drafts, bool right) {
    sequence.draft_token_ids.assign(static_cast<size_t>(num_drafts), right ? kRight : kWrong);
  }

  Plan step() {
    Plan plan = scheduler_.schedule();
    check(plan);
    finish(plan);
    return plan;
  }

  // Every sequence whose tokens are all computed gets its next ones.
  void finish(const Plan& plan) {
    for (const ScheduledSlice& slice : plan.slices) {
      slice.sequence->num_computed_tokens += slice.num_known_tokens();
    }
    scheduler_.complete(plan);
    for (const ScheduledSlice& slice : plan.slices) {
      Sequence& sequence = *slice.sequence;
      if (sequence.num_pending_tokens() > 0) continue;
      if (sequence.num_tokens() < sequence.max_num_tokens) answer(slice);
      sequence.draft_token_ids.clear();
      if (sequence.num_tokens() == sequence.max_num_tokens) remove(sequence);
    }
    check_books();
  }

  void remove(Sequence& sequence) {
    scheduler_.remove(sequence);
    done_.push_back(&sequence);
  }
  bool is_done(const Sequence& sequence) const {
    return std::find(done_.begin(), done_.end(), &sequence) != done_.end();
  }

  Scheduler& scheduler() { return scheduler_; }
  BlockManager& blocks() { return blocks_; }

 private:
  static constexpr TokenId kRight = -1;
  static constexpr TokenId kWrong = -2;

  void answer(const ScheduledSlice& slice) {
    Sequence& sequence = *slice.sequence;
    const bool right = slice.num_draft_tokens > 0 && sequence.draft_token_ids[0] == kRight;
    const int64_t num_accepted = right ? slice.num_draft_tokens : 0;
    for (int64_t i = 0; i < 1 + num_accepted; ++i) sequence.token_ids.push_back(next_token_++);
    if (slice.num_draft_tokens > 0) scheduler_.accept_drafts(sequence, num_accepted);
  }

  void check(const Plan& plan) {
    int64_t tokens = 0, rows = 0, num_decodes = 0, num_drafts = 0;
    std::map<const Sequence*, int> seen;
    for (const ScheduledSlice& slice : plan.slices) {
      EXPECT_TRUE(slice.num_tokens > 1 || tokens == num_decodes);  // those of one token come first
      num_decodes += slice.num_tokens == 1 ? 1 : 0;
      tokens += slice.num_tokens;
      rows += slice.num_logit_rows;
      num_drafts += slice.num_draft_tokens;
      EXPECT_EQ(++seen[slice.sequence], 1);
      EXPECT_GT(slice.num_known_tokens(), 0);
      EXPECT_LE(slice.num_known_tokens(), slice.sequence->num_pending_tokens());
      EXPECT_EQ(slice.sequence->state, SequenceState::kRunning);
      const bool reaches_end = slice.num_known_tokens() == slice.sequence->num_pending_tokens();
      EXPECT_GE(slice.num_logit_rows, reaches_end ? 1 + slice.num_draft_tokens : 0);
      EXPECT_TRUE(reaches_end || slice.num_draft_tokens == 0);
      const auto capacity =
          static_cast<int64_t>(slice.sequence->block_table.blocks.size()) * kBlockSize;
      EXPECT_GE(capacity, slice.sequence->num_computed_tokens + slice.num_tokens);
    }
    if (num_drafts > 0) {  // nobody else could do with what they take
      EXPECT_EQ(static_cast<int64_t>(plan.slices.size()), scheduler_.num_running());
    }
    EXPECT_EQ(tokens, plan.num_tokens);
    EXPECT_EQ(rows, plan.num_logit_rows);
    EXPECT_LE(tokens, config_.max_num_batched_tokens);
    EXPECT_LE(rows, config_.max_logit_rows);
    EXPECT_LE(scheduler_.num_running(), config_.max_num_seqs);
  }

  void check_books() {
    std::vector<const BlockTable*> tables;
    for (const auto& sequence : sequences_) {
      tables.push_back(&sequence->block_table);
      const auto capacity = static_cast<int64_t>(sequence->block_table.blocks.size()) * kBlockSize;
      EXPECT_LT(capacity, sequence->num_tokens() + kBlockSize);  // nothing is left of drafts
      if (sequence->state != SequenceState::kRunning) {
        EXPECT_TRUE(sequence->block_table.blocks.empty());
      }
    }
    EXPECT_TRUE(blocks_.check_integrity(tables));
    EXPECT_EQ(blocks_.num_used_blocks() + blocks_.num_cached_blocks() + blocks_.num_free_blocks(),
              blocks_.num_blocks());
  }

  SchedulerConfig config_;
  BlockManager blocks_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<const Sequence*> done_;
  TokenId next_token_ = 1;
};

inline SchedulerConfig config_of(int64_t max_num_seqs, int64_t max_num_batched_tokens) {
  SchedulerConfig config;
  config.max_num_seqs = max_num_seqs;
  config.max_num_batched_tokens = max_num_batched_tokens;
  config.max_logit_rows = max_num_seqs + 2;
  config.watermark = 0;
  config.admission_factor = 1;
  return config;
}

inline int64_t tokens_of(const Plan& plan, const Sequence& sequence) {
  for (const ScheduledSlice& slice : plan.slices) {
    if (slice.sequence == &sequence) return slice.num_tokens;
  }
  return 0;
}

}  // namespace octavo::engine
