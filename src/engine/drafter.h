// Drafter: guesses how a sequence goes on. A wrong guess costs a row of a step and changes nothing
// else, so that a drafter may guess by whatever means, or not at all.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"
#include "octavo/status.h"

namespace octavo::engine {

struct DraftRequest {
  Sequence* sequence = nullptr;
  int64_t num_tokens = 0;  // wanted; above 0
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // Sets the draft_token_ids of each sequence, which are empty, to as many guesses as are wanted,
  // or fewer. Of a sequence it sees the tokens grow from call to call, and never change.
  virtual Status propose(std::span<const DraftRequest> requests) = 0;

  // The sequence has ended. It may never have been seen.
  virtual void forget(const Sequence& sequence) = 0;

  // What was computed for sequences that ended is not to be used again.
  virtual void reset_prefix_cache() {}

  // What a draft costs, as a share of a step of one token.
  virtual double relative_cost() const { return 0; }
};

}  // namespace octavo::engine
