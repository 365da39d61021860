// A model without a model: the next token follows from a sequence's last one and its length. Can be
// told to fail.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/executor.h"

namespace octavo::engine {

inline constexpr int64_t kVocabSize = 50;

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(int64_t vocab_size) : vocab_size_(vocab_size) {}

  // Called before each step with its number, from 0 on; may throw, sleep or return an error.
  std::function<Status(int64_t step, const Plan& plan)> on_step;
  // Called after each step with the logits.
  std::function<void(int64_t step, std::vector<float>& logits)> on_logits;

  // For pool() and is_async().
  std::unique_ptr<ThreadPool> threads;
  bool async = false;

  TokenId next_token(const Sequence& sequence, int64_t position) const {
    return static_cast<TokenId>((7 * sequence.token_or_draft(position) + 3 * position + 1) %
                                vocab_size_);
  }

  Status execute_async(const Plan& plan) override {
    plan_ = &plan;
    return on_step ? on_step(step_++, plan) : Status();
  }

  Result<StepOutput> wait() override {
    logits_.assign(plan_->num_logit_rows * vocab_size_, 0.0f);
    float* row = logits_.data();
    for (const ScheduledSlice& slice : plan_->slices) {
      const int64_t end = slice.sequence->num_computed_tokens + slice.num_tokens;
      slice.sequence->num_computed_tokens += slice.num_known_tokens();
      for (int64_t i = slice.num_logit_rows; i > 0; --i, row += vocab_size_) {
        row[next_token(*slice.sequence, end - i)] = 5;
      }
    }
    if (on_logits) on_logits(step_, logits_);
    return StepOutput{ops::Mat(logits_.data(), DType::kF32, plan_->num_logit_rows, vocab_size_),
                      hidden()};
  }

  ThreadPool* pool() override { return threads.get(); }
  bool is_async() const override { return async; }

 private:
  // A row of a position is the token there, and the position.
  ops::Mat hidden() {
    hidden_.clear();
    for (const ScheduledSlice& slice : plan_->slices) {
      for (int64_t i = slice.num_hidden_rows; i > 0; --i) {
        const int64_t position = slice.sequence->num_computed_tokens - i;
        hidden_.push_back(static_cast<float>(slice.sequence->token_ids[position]));
        hidden_.push_back(static_cast<float>(position));
      }
    }
    return {hidden_.data(), DType::kF32, plan_->num_hidden_rows, 2};
  }

  int64_t vocab_size_;
  int64_t step_ = 0;
  const Plan* plan_ = nullptr;
  std::vector<float> logits_;
  std::vector<float> hidden_;
};

}  // namespace octavo::engine
