// Sampler: from a row of logits to a token. Order of operations as in vLLM: temperature, min_p,
// top_k, top_p, then a draw. Ties go to the lower id, so that a seed gives the same answer
// everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "octavo/request.h"
#include "octavo/status.h"

namespace octavo::engine {

// The id of the largest logit. A NaN anywhere is an error, not a token.
Result<TokenId> argmax(std::span<const float> logits);

class Sampler {
 public:
  // `params` must be valid.
  explicit Sampler(const SamplingParams& params);

  Result<TokenId> sample(std::span<const float> logits);

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };

  // Cuts candidates_ to those that top_p keeps, ordered; returns the sum of their weights.
  double keep_top_p();

  SamplingParams params_;
  Rng rng_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace octavo::engine
