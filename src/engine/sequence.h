// Sequence: one generation in progress: its tokens, how far its KV cache reaches, and what the
// scheduler knows of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/block_manager.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

enum class SequenceState { kNew, kWaiting, kRunning };

struct Sequence {
  std::vector<TokenId> token_ids;   // prompt, then what was generated
  int64_t num_computed_tokens = 0;  // of these, keys and values are in the cache
  // Guesses at what follows token_ids, which the next step may compute along: those that are right
  // become tokens then, the others never were.
  std::vector<TokenId> draft_token_ids;
  BlockTable block_table;
  int64_t rope_variant = 0;  // model::rope_variant of the length it may reach; never changes

  // Set by the owner before Scheduler::add.
  int64_t max_num_tokens = 0;  // of prompt and answer together
  int32_t priority = 0;        // the smaller, the sooner
  int32_t num_forks = 0;       // sequences that will branch off once the prompt is computed
  std::string cache_extras;    // see PrefixIndex
  // Logits are wanted at this position and all later ones; moved on as they come.
  int64_t first_logit_position = 0;
  bool wants_hidden = false;  // hidden states instead of logits

  // Set by the scheduler.
  SequenceState state = SequenceState::kNew;
  uint64_t arrival = 0;    // order of add() and fork()
  bool preempted = false;  // waits for the second time
  int32_t num_preemptions = 0;
  int32_t num_overtakes = 0;      // sequences behind this one that were admitted before it
  int64_t num_cached_tokens = 0;  // that the first admission found in the prefix cache

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t num_pending_tokens() const { return num_tokens() - num_computed_tokens; }
  TokenId token_or_draft(int64_t position) const {
    return position < num_tokens() ? token_ids[position] : draft_token_ids[position - num_tokens()];
  }
};

// The next `num_tokens` uncomputed tokens of a sequence, whose block table already covers them, and
// of the last how many of these logits, or hidden states, are wanted. The last of them may be
// drafts.
struct ScheduledSlice {
  Sequence* sequence = nullptr;
  int64_t num_tokens = 0;
  int64_t num_logit_rows = 0;
  int64_t num_hidden_rows = 0;
  int64_t num_draft_tokens = 0;  // of num_tokens

  // Whatever becomes of the drafts, these are computed.
  int64_t num_known_tokens() const { return num_tokens - num_draft_tokens; }
};

}  // namespace octavo::engine
