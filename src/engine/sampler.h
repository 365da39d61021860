// Sampler: from a row of logits to a token. Order of operations as in vLLM: temperature, min_p,
// top_k, top_p, then a draw. Ties go to the lower id, so that a seed gives the same answer
// everywhere; ops/draw_args.h has the rule in full.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "engine/softmax_row.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "ops/draw_args.h"

namespace octavo::engine {

// The id of the largest logit. A NaN anywhere is an error, not a token.
Result<TokenId> argmax(std::span<const float> logits);

// Memory that samplers share, one at a time.
struct SamplerScratch {
  std::vector<float> logits;  // as a request changes them
  SoftmaxRow row;
  std::vector<Candidate> candidates;
};

class Sampler {
 public:
  // `params` must be valid.
  explicit Sampler(const SamplingParams& params);

  Result<TokenId> sample(std::span<const float> logits, SamplerScratch& scratch);

  // How sample() will draw. Who draws in its place calls move_on() then.
  const ops::RowDraw& next_draw() const { return draw_; }
  void move_on();

 private:
  ops::RowDraw draw_;
  Rng rng_;
};

}  // namespace octavo::engine
