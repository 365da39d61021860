// A smaller model that drafts: what it computes, and that following a sequence through right and
// wrong drafts changes none of them.
#include "engine/model_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "unit/engine/fake_executor.h"

namespace octavo::engine {
namespace {

// Checks that each position is computed after all before it, with the tokens that stand there.
class CheckingExecutor : public FakeExecutor {
 public:
  CheckingExecutor() : FakeExecutor(kVocabSize) {
    on_step = [this](int64_t, const Plan& plan) {
      int64_t num_tokens = 0;
      for (const ScheduledSlice& slice : plan.slices) {
        const Sequence& sequence = *slice.sequence;
        num_tokens += slice.num_tokens;
        EXPECT_GT(slice.num_tokens, 0);
        EXPECT_LE(slice.num_tokens, sequence.num_pending_tokens());
        EXPECT_GE(sequence.block_table.num_filled_pages * 4,
                  sequence.num_computed_tokens + slice.num_tokens);
      }
      EXPECT_EQ(num_tokens, plan.num_tokens);
      EXPECT_LE(num_tokens, 16);
      steps.push_back(num_tokens);
      return Status();
    };
  }
  std::vector<int64_t> steps;
};

struct DraftingWorld {
  explicit DraftingWorld(int64_t num_blocks = 64) {
    ModelDrafterConfig config;
    config.num_blocks = num_blocks;
    config.block_size = 4;
    config.max_num_batched_tokens = 16;
    config.max_logit_rows = 8;
    config.max_model_len = 100;
    config.vocab_size = kVocabSize;
    config.target_vocab_size = kVocabSize;
    auto owned = std::make_unique<CheckingExecutor>();
    executor = owned.get();
    drafter = std::make_unique<ModelDrafter>(config, std::move(owned));
  }

  std::vector<TokenId> draft(Sequence& sequence, int64_t num_tokens) {
    sequence.draft_token_ids.clear();
    const DraftRequest request{&sequence, num_tokens};
    EXPECT_TRUE(drafter->propose({&request, 1}).ok());
    EXPECT_TRUE(drafter->check_integrity());
    return sequence.draft_token_ids;
  }

  // What the model says after the sequence, token by token.
  std::vector<TokenId> continuation(Sequence sequence, int64_t num_tokens) const {
    std::vector<TokenId> result;
    for (int64_t i = 0; i < num_tokens; ++i) {
      result.push_back(executor->next_token(sequence, sequence.num_tokens() - 1));
      sequence.token_ids.push_back(result.back());
    }
    return result;
  }

  CheckingExecutor* executor = nullptr;
  std::unique_ptr<ModelDrafter> drafter;
};

Sequence sequence_of(std::vector<TokenId> tokens) {
  Sequence sequence;
  sequence.token_ids = std::move(tokens);
  sequence.max_num_tokens = 200;
  return sequence;
}

TEST(ModelDrafter, CatchesUpInOnePassAndDraftsGreedily) {
  DraftingWorld world;
  Sequence target = sequence_of({1, 2, 3, 4, 5});
  const std::vector<TokenId> expected = world.continuation(target, 3);
  EXPECT_EQ(world.draft(target, 3), expected);
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{5, 1, 1}));
  // All were right, and the model's own token comes after them.
  target.token_ids.insert(target.token_ids.end(), expected.begin(), expected.end());
  target.token_ids.push_back(7);
  world.executor->steps.clear();
  EXPECT_EQ(world.draft(target, 2), world.continuation(target, 2));
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{2, 1}));
}

TEST(ModelDrafter, AnUnchangedSequenceGetsTheSameDrafts) {
  DraftingWorld world;
  for (const std::vector<TokenId>& tokens :
       {std::vector<TokenId>{1, 2, 3, 4, 5}, std::vector<TokenId>{1, 2, 3, 4, 5, 6, 7, 8}}) {
    Sequence target = sequence_of(tokens);
    const std::vector<TokenId> expected = world.continuation(target, 2);
    EXPECT_EQ(world.draft(target, 2), expected);
    EXPECT_EQ(world.draft(target, 2), expected);
    // Nor does it keep another one from its drafts.
    target.draft_token_ids.clear();
    Sequence other = sequence_of({11, 12});
    const std::vector<DraftRequest> requests = {{&target, 2}, {&other, 2}};
    ASSERT_TRUE(world.drafter->propose(requests).ok());
    EXPECT_EQ(target.draft_token_ids, expected);
    EXPECT_EQ(other.draft_token_ids, world.continuation(sequence_of({11, 12}), 2));
    EXPECT_TRUE(world.drafter->check_integrity());
    EXPECT_EQ(std::count(world.executor->steps.begin(), world.executor->steps.end(), 0), 0);
    world.drafter->forget(target);
    world.drafter->forget(other);
  }
}

TEST(ModelDrafter, WrongDraftsLeaveNoTrace) {
  Rng rng(3);
  DraftingWorld world;
  Sequence target = sequence_of({9, 8, 7});
  while (target.num_tokens() < 80) {
    const auto wanted = static_cast<int64_t>(1 + rng.next_u64() % 5);
    const std::vector<TokenId> drafts = world.draft(target, wanted);
    EXPECT_EQ(drafts, world.continuation(target, wanted));
    const auto num_right = static_cast<ptrdiff_t>(rng.next_u64() % (drafts.size() + 1));
    target.token_ids.insert(target.token_ids.end(), drafts.begin(), drafts.begin() + num_right);
    target.token_ids.push_back(static_cast<TokenId>(rng.next_u64() % kVocabSize));
    for (uint64_t i = rng.next_u64() % 3; i > 0; --i) {  // steps without drafts
      target.token_ids.push_back(static_cast<TokenId>(rng.next_u64() % kVocabSize));
    }
  }
  world.drafter->forget(target);
  EXPECT_TRUE(world.drafter->check_integrity());
}

TEST(ModelDrafter, ALongPromptIsCaughtUpWithOverSeveralSteps) {
  DraftingWorld world;
  std::vector<TokenId> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
  Sequence target = sequence_of(tokens);
  EXPECT_TRUE(world.draft(target, 2).empty());
  EXPECT_TRUE(world.draft(target, 2).empty());
  EXPECT_EQ(world.draft(target, 2), world.continuation(target, 2));
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{16, 16, 8, 1}));
  // Another one with the same beginning finds it.
  Sequence other = sequence_of(tokens);
  world.executor->steps.clear();
  EXPECT_EQ(world.draft(other, 1), world.continuation(other, 1));
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{4}));
}

TEST(ModelDrafter, ManySequencesShareSteps) {
  DraftingWorld world;
  std::vector<Sequence> targets;
  for (TokenId i = 0; i < 4; ++i) targets.push_back(sequence_of({1, 2, i}));
  std::vector<DraftRequest> requests;
  for (Sequence& target : targets) requests.push_back({&target, 1 + target.token_ids[2]});
  ASSERT_TRUE(world.drafter->propose(requests).ok());
  for (const DraftRequest& request : requests) {
    EXPECT_EQ(request.sequence->draft_token_ids,
              world.continuation(sequence_of(request.sequence->token_ids), request.num_tokens));
  }
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{12, 3, 2, 1}));
}

TEST(ModelDrafter, WhoWaitsGivesItsBlocksToOthers) {
  DraftingWorld world(4);  // 16 tokens
  Sequence first = sequence_of({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Sequence second = sequence_of({11, 12, 13, 14, 15, 16, 17, 18, 19});
  EXPECT_EQ(world.draft(first, 2).size(), 2u);
  EXPECT_EQ(world.draft(second, 2), world.continuation(second, 2));
  EXPECT_EQ(world.draft(first, 2), world.continuation(first, 2));
  Sequence large = sequence_of(std::vector<TokenId>(17, 1));
  EXPECT_TRUE(world.draft(large, 2).empty());
}

TEST(ModelDrafter, WhatThisModelDoesNotKnowIsNotDraftedFor) {
  DraftingWorld world;
  Sequence target = sequence_of({1, 2, kVocabSize});
  EXPECT_TRUE(world.draft(target, 2).empty());
  EXPECT_TRUE(world.executor->steps.empty());
  Sequence full = sequence_of(std::vector<TokenId>(100, 1));
  EXPECT_TRUE(world.draft(full, 2).empty());
}

// As of one that has become too long, or has a token that this model does not know.
TEST(ModelDrafter, WhoGetsNoDraftsAnyMoreGivesItsBlocksToOthers) {
  for (const bool too_long : {true, false}) {
    DraftingWorld world(25);  // as many as 100 tokens need
    Sequence first = sequence_of(std::vector<TokenId>(99, 1));
    for (int i = 1; i <= 7; ++i) EXPECT_EQ(world.draft(first, 1).empty(), i < 7);
    Sequence second = sequence_of({1, 2, 3, 4, 5, 6, 7, 8, 9});
    first.token_ids.push_back(too_long ? 1 : kVocabSize);
    first.draft_token_ids.clear();
    const std::vector<DraftRequest> requests = {{&first, 1}, {&second, 2}};
    ASSERT_TRUE(world.drafter->propose(requests).ok());
    EXPECT_TRUE(first.draft_token_ids.empty());
    EXPECT_EQ(second.draft_token_ids, world.continuation(sequence_of(second.token_ids), 2));
    EXPECT_TRUE(world.drafter->check_integrity());
  }
}

TEST(ModelDrafter, AfterAResetNothingIsFoundAgain) {
  DraftingWorld world;
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Sequence first = sequence_of(tokens);
  world.draft(first, 1);
  world.drafter->reset_prefix_cache();
  EXPECT_TRUE(world.drafter->check_integrity());
  world.executor->steps.clear();
  Sequence second = sequence_of(tokens);
  EXPECT_EQ(world.draft(second, 1), world.continuation(second, 1));
  EXPECT_EQ(world.executor->steps, (std::vector<int64_t>{9}));
  EXPECT_EQ(world.draft(first, 1), world.continuation(first, 1));
}

TEST(ModelDrafter, AFailureIsHandedOn) {
  DraftingWorld world;
  world.executor->on_step = [](int64_t, const Plan&) { return internal_error("no power"); };
  Sequence target = sequence_of({1, 2, 3});
  const DraftRequest request{&target, 2};
  EXPECT_EQ(world.drafter->propose({&request, 1}).message(), "no power");
}

}  // namespace
}  // namespace octavo::engine
