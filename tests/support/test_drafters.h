// Drafters for tests that know which answers will come.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "engine/completion.h"
#include "engine/model_drafter.h"
#include "engine/model_runner.h"

namespace octavo::testing {

using AnswerOf = std::function<const std::vector<TokenId>&(const engine::Completion&)>;

// Says what will come, and something else now and then.
class FallibleOracle : public engine::Drafter {
 public:
  FallibleOracle(uint64_t seed, int64_t vocab_size, AnswerOf answer_of)
      : rng_(seed),
        vocab_size_(static_cast<uint64_t>(vocab_size)),
        answer_of_(std::move(answer_of)) {}

  Status propose(std::span<const engine::DraftRequest> requests) override {
    for (const engine::DraftRequest& request : requests) {
      const auto& completion = static_cast<const engine::Completion&>(*request.sequence);
      const std::vector<TokenId>& answer = answer_of_(completion);
      for (int64_t i = 0; i < request.num_tokens && rng_.next_u64() % 8 != 0; ++i) {
        const auto next = static_cast<size_t>(completion.num_generated_tokens() + i);
        const bool right = next < answer.size() && rng_.next_u64() % 4 != 0;
        request.sequence->draft_token_ids.push_back(
            right ? answer[next] : static_cast<TokenId>(rng_.next_u64() % vocab_size_));
      }
    }
    return {};
  }
  void forget(const engine::Sequence&) override {}

 private:
  Rng rng_;
  uint64_t vocab_size_;
  AnswerOf answer_of_;
};

// Drafts with the model that answers, whose greedy answers it must therefore know.
class CheckedModelDrafter : public engine::Drafter {
 public:
  CheckedModelDrafter(engine::ModelDrafterConfig config, engine::ModelRunner& runner,
                      AnswerOf answer_of)
      : drafter_(std::move(config), std::make_unique<Borrowed>(runner)),
        answer_of_(std::move(answer_of)) {}

  Status propose(std::span<const engine::DraftRequest> requests) override {
    Status status = drafter_.propose(requests);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(drafter_.check_integrity());
    for (const engine::DraftRequest& request : requests) {
      const auto& completion = static_cast<const engine::Completion&>(*request.sequence);
      const std::vector<TokenId>& drafts = completion.draft_token_ids;
      EXPECT_LE(static_cast<int64_t>(drafts.size()), request.num_tokens);
      if (!is_plainly_greedy(completion.request().request.sampling)) continue;
      const std::vector<TokenId>& answer = answer_of_(completion);
      const auto begin = static_cast<size_t>(completion.num_generated_tokens());
      for (size_t i = 0; i < drafts.size() && begin + i < answer.size(); ++i) {
        EXPECT_EQ(drafts[i], answer[begin + i]);
      }
    }
    return status;
  }
  void forget(const engine::Sequence& sequence) override { drafter_.forget(sequence); }

 private:
  class Borrowed : public engine::Executor {
   public:
    explicit Borrowed(engine::ModelRunner& runner) : runner_(runner) {}
    Status execute_async(const engine::Plan& plan) override { return runner_.execute_async(plan); }
    Result<engine::StepOutput> wait() override { return runner_.wait(); }

   private:
    engine::ModelRunner& runner_;
  };

  static bool is_plainly_greedy(const SamplingParams& params) {
    return params.temperature == 0 && params.repetition_penalty == 1 &&
           params.presence_penalty == 0 && params.frequency_penalty == 0 && params.min_tokens == 0;
  }

  engine::ModelDrafter drafter_;
  AnswerOf answer_of_;
};

}  // namespace octavo::testing
