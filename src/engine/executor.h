// Executor: computes the steps that the scheduler plans, one at a time.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "engine/scheduler.h"
#include "octavo/status.h"
#include "ops/mat.h"

namespace octavo::engine {

// In the order of the plan's slices, in host memory until the next step.
struct StepOutput {
  ops::Mat logits;                  // [num_logit_rows, vocab_size]: of rows that have no token
  ops::Mat hidden;                  // [num_hidden_rows, hidden_size]: after the model's last norm
  std::span<const TokenId> tokens;  // [num_logit_rows], drawn as Plan::draws says; or -1. Or empty

  TokenId token(int64_t row) const { return tokens.empty() ? -1 : tokens[row]; }
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Begins a step; `plan` stays as it is until wait() returns. After an error there is no step.
  virtual Status execute_async(const Plan& plan) = 0;

  // Waits for the step's end and moves the num_computed_tokens of its sequences on, by all but
  // drafts.
  virtual Result<StepOutput> wait() = 0;

  // Whether a step is computed between the two calls, while the caller does something else.
  virtual bool is_async() const { return false; }

  // Threads that have nothing to do between wait() and the next step; null: there are none.
  virtual ThreadPool* pool() { return nullptr; }
};

}  // namespace octavo::engine
