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
    float logit;  // scaled; of the likeliest 0
    TokenId id;
    bool before(const Candidate& other) const {
      return logit != other.logit ? logit > other.logit : id < other.id;
    }
  };
  struct Ordered {
    TokenId id;
    double weight_up_to;  // of all candidates up to this one
  };

  TokenId draw();

  SamplingParams params_;
  Rng rng_;
  std::vector<Candidate> candidates_;
  std::vector<Ordered> ordered_;  // the likeliest of them
};

}  // namespace octavo::engine
