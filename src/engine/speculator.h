// Speculator: which sequences get drafts for the next step, and how many: more where they have been
// right, fewer where the step is large anyway. What a draft is, the drafter knows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/draft_length.h"
#include "engine/drafter.h"
#include "octavo/engine.h"

namespace octavo::engine {

struct SpeculatorConfig {
  int64_t num_speculative_tokens = 0;
  double row_cost = 0;  // of each row of a step, as a share of what the step takes anyway
};

class Speculator {
 public:
  Speculator(const SpeculatorConfig& config, std::unique_ptr<Drafter> drafter);

  // Gives those of `running` that decode their drafts, and takes away what the others still have.
  void draft(std::span<Sequence* const> running);

  // What came of a sequence's drafts, those that a step computed.
  void observe(const Sequence& sequence, int64_t num_drafted, int64_t num_accepted);

  // The sequence has ended.
  void forget(const Sequence& sequence);

  void reset_prefix_cache();

  void add_to(EngineStats& stats) const;

 private:
  Status propose(std::span<const DraftRequest> requests);

  SpeculatorConfig config_;
  std::unique_ptr<Drafter> drafter_;  // null once it has failed
  std::unordered_map<const Sequence*, DraftLength> lengths_;
  std::vector<DraftRequest> requests_;  // of one step
  int64_t num_drafts_ = 0;
  int64_t num_draft_tokens_ = 0;
  int64_t num_accepted_tokens_ = 0;
  std::vector<int64_t> num_accepted_per_pos_;  // [num_speculative_tokens]
};

}  // namespace octavo::engine
