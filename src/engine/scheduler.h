// Scheduler: which tokens of which sequences the next step computes. Pure and deterministic: it
// knows no device, no tokenizer and no clock; what it decides follows from the calls made to it.
//
// There are no phases. A sequence has tokens and computed tokens, and a step hands out a budget of
// tokens until the second catch up with the first; whether that is a prompt's chunk, a decode or
// the recomputation after a preemption makes no difference.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "engine/sequence.h"
#include "octavo/engine.h"
#include "octavo/status.h"
#include "ops/draw_args.h"

namespace octavo::engine {

struct SchedulerConfig {
  int64_t max_num_seqs = 256;
  int64_t max_num_batched_tokens = 512;
  int64_t max_logit_rows = 256;              // at least max_num_seqs
  int64_t long_prefill_token_threshold = 0;  // most tokens of a prompt in a step; 0: no such limit
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  double watermark = 0.01;        // share of the blocks that admission leaves free
  double admission_factor = 1.2;  // for fragmentation and growth
};

// One step's work: all that the scheduler tells who executes it.
struct Plan {
  std::vector<BlockCopy> copies;       // to be made in this order, before anything is computed
  std::vector<ScheduledSlice> slices;  // those of one token first, then others that are short
  int64_t num_tokens = 0;
  int64_t num_logit_rows = 0;
  int64_t num_hidden_rows = 0;
  // [num_logit_rows]: tokens that may be drawn where the logits are. Or empty. Not the scheduler's
  // business, but of who knows the requests.
  std::vector<ops::RowDraw> draws;
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, BlockManager& blocks);

  // Whether so many sequences could run if they were alone, one of them to its end; the error has
  // the numbers. May be called from any thread.
  Status check_fits(int64_t num_seqs, int64_t max_num_tokens) const;

  // Queues a new sequence that fits. It must live until remove().
  void add(Sequence& sequence);

  // Decides the next step; empty where nothing can run. The caller then lets the sequences'
  // num_computed_tokens follow, and calls complete().
  Plan schedule();

  // The plan was computed: its full blocks become findable.
  void complete(const Plan& plan);

  // So many drafts of the last plan were right, and have become tokens of the sequence: they are
  // computed already. What the others took is given back.
  void accept_drafts(Sequence& sequence, int64_t num_drafts);

  // `child`, new, goes on from where `parent` is, a running sequence that announced forks.
  void fork(Sequence& parent, Sequence& child);

  // Takes a sequence out, in whatever state it is, and frees its blocks.
  void remove(Sequence& sequence);

  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  const std::vector<Sequence*>& running() const { return running_; }

  // Totals since the start. Cached tokens are those that an admission found in the prefix cache;
  // what a preempted sequence finds again is counted apart.
  struct Totals {
    int64_t prefix_cache_queries = 0;  // tokens looked up
    int64_t prefix_cache_hits = 0;     // tokens found
    int64_t recomputed_queries = 0;
    int64_t recomputed_hits = 0;
    int64_t preemptions = 0;
    int64_t overtakes = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  // Preempted ones first, then as they came; by priority before that where the policy says so.
  struct WaitingOrder {
    SchedulingPolicy policy;
    bool operator()(const Sequence* a, const Sequence* b) const;
  };
  // What is left of this step.
  struct Budget {
    int64_t tokens = 0;
    int64_t logit_rows = 0;
    int64_t decode_tokens = 0;  // of both, kept for running sequences that need a single token
    bool share_prefill = false;
  };

  Budget start_step() const;
  bool short_prompt_wants_in() const;
  int64_t chunk_of(const Sequence& sequence, const Budget& budget) const;
  void append_slice(Plan& plan, Budget& budget, Sequence& sequence, int64_t num_tokens);
  bool schedule_running(Plan& plan, Budget& budget);
  void admit_waiting(Plan& plan, Budget& budget);
  void top_up(Plan& plan, Budget& budget) const;
  int64_t num_drafts_of(Sequence& sequence, const Budget& budget);
  void add_drafts(Plan& plan, Budget& budget);
  bool grow(Sequence& sequence, std::vector<BlockCopy>& copies);
  bool should_admit(const Sequence& sequence, const PrefixMatch& match) const;
  void admit(Sequence& sequence, const PrefixMatch& match);
  PrefixMatch find_prefix(const Sequence& sequence) const;
  void start_running(Sequence& sequence);
  void stop_running(Sequence& sequence);
  void preempt(Sequence& sequence);
  void make_findable(Sequence& sequence);

  SchedulerConfig config_;
  BlockManager& blocks_;
  int64_t watermark_blocks_;
  uint64_t next_arrival_ = 1;
  int64_t num_seats_ = 0;  // running sequences and their announced forks
  // In order of rank: the last is preempted first, so that the one that came first always gets on.
  std::vector<Sequence*> running_;
  std::set<Sequence*, WaitingOrder> waiting_;
  Totals totals_;
};

}  // namespace octavo::engine
