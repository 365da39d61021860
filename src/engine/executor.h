// Executor: computes the steps that the scheduler plans, one at a time.
#pragma once

#include "engine/scheduler.h"
#include "octavo/status.h"
#include "ops/mat.h"

namespace octavo::engine {

class Executor {
 public:
  virtual ~Executor() = default;

  // Begins a step; `plan` stays as it is until wait() returns. After an error there is no step.
  virtual Status execute_async(const Plan& plan) = 0;

  // Waits for the step's end and moves the num_computed_tokens of its sequences on. The rows of
  // logits [num_logit_rows, vocab_size], in the order of the slices, lie in host memory until the
  // next step.
  virtual Result<ops::Mat> wait() = 0;
};

}  // namespace octavo::engine
