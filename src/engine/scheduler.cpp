#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/format.h"
#include "ops/attention_args.h"

namespace octavo::engine {
namespace {

// How many waiting sequences a step looks at: bounds its time with thousands of them. Those behind
// come into view as soon as one of these is admitted.
constexpr int64_t kMaxScan = 16;

// How often a sequence may be overtaken by others behind it. Then the blocks that get free are
// saved up for it: a long prompt waits, but not for ever.
constexpr int32_t kMaxOvertakes = 64;

// The next `num_tokens` tokens of a sequence, and the rows that they yield. Hidden states need no
// budget: there is room for those of all tokens of a step.
ScheduledSlice slice_of(Sequence& sequence, int64_t num_tokens) {
  const int64_t begin = sequence.num_computed_tokens;
  const int64_t end = begin + num_tokens;
  const int64_t rows = std::max<int64_t>(0, end - std::max(begin, sequence.first_logit_position));
  if (sequence.wants_hidden) return {&sequence, num_tokens, 0, rows};
  return {&sequence, num_tokens, rows, 0};
}

// By priority, where the policy says so, then as they came.
std::tuple<int32_t, uint64_t> rank(const Sequence& sequence, SchedulingPolicy policy) {
  const bool by_priority = policy == SchedulingPolicy::kPriority;
  return {by_priority ? sequence.priority : 0, sequence.arrival};
}

bool is_decode(const Sequence& sequence) {
  return sequence.num_pending_tokens() == 1;
}

}  // namespace

bool Scheduler::WaitingOrder::operator()(const Sequence* a, const Sequence* b) const {
  const auto key = [&](const Sequence* s) {
    const auto [priority, arrival] = rank(*s, policy);
    return std::tuple(priority, !s->preempted, arrival);
  };
  return key(a) < key(b);
}

Scheduler::Scheduler(const SchedulerConfig& config, BlockManager& blocks)
    : config_(config),
      blocks_(blocks),
      watermark_blocks_(
          static_cast<int64_t>(config.watermark * static_cast<double>(blocks.num_blocks()))),
      waiting_(WaitingOrder{config.scheduling_policy}) {
  OCTAVO_CHECK(config.max_num_seqs > 0 && config.max_num_batched_tokens >= config.max_num_seqs);
  OCTAVO_CHECK(config.max_logit_rows >= config.max_num_seqs && config.admission_factor >= 1);
}

// --- sequences come and go -----------------------------------------------------------------------

Status Scheduler::check_fits(int64_t num_seqs, int64_t max_num_tokens) const {
  if (num_seqs > config_.max_num_seqs) {
    return invalid_argument(
        format("n is {}, but max_num_seqs is {}", num_seqs, config_.max_num_seqs));
  }
  const int64_t needed = blocks_.peak_blocks(max_num_tokens, config_.max_num_batched_tokens);
  if (needed <= blocks_.num_blocks()) return {};
  return invalid_argument(
      format("{} tokens of prompt and answer need {} KV blocks of {}, but there are only {}",
             max_num_tokens, needed, blocks_.block_size(), blocks_.num_blocks()));
}

void Scheduler::add(Sequence& sequence) {
  OCTAVO_CHECK(sequence.state == SequenceState::kNew);
  OCTAVO_CHECK(check_fits(1 + sequence.num_forks, sequence.max_num_tokens).ok());
  OCTAVO_CHECK(sequence.num_tokens() > 0 && sequence.first_logit_position < sequence.num_tokens());
  sequence.state = SequenceState::kWaiting;
  sequence.arrival = next_arrival_++;
  waiting_.insert(&sequence);
}

void Scheduler::fork(Sequence& parent, Sequence& child) {
  OCTAVO_CHECK(parent.state == SequenceState::kRunning && parent.num_forks > 0);
  OCTAVO_CHECK(child.state == SequenceState::kNew && child.num_forks == 0);
  --parent.num_forks;
  --num_seats_;
  child.block_table = blocks_.fork(parent.block_table);
  child.num_computed_tokens = parent.num_computed_tokens;
  child.arrival = next_arrival_++;
  start_running(child);
}

void Scheduler::remove(Sequence& sequence) {
  if (sequence.state == SequenceState::kWaiting) waiting_.erase(&sequence);
  if (sequence.state == SequenceState::kRunning) stop_running(sequence);
  blocks_.shrink(sequence.block_table, 0);
  sequence.state = SequenceState::kNew;
}

void Scheduler::start_running(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  num_seats_ += 1 + sequence.num_forks;
  const auto before = [&](const Sequence* a, const Sequence* b) {
    return rank(*a, config_.scheduling_policy) < rank(*b, config_.scheduling_policy);
  };
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, before), &sequence);
}

void Scheduler::stop_running(Sequence& sequence) {
  num_seats_ -= 1 + sequence.num_forks;
  // From the end, where victims and young sequences are.
  const auto found = std::find(running_.rbegin(), running_.rend(), &sequence);
  OCTAVO_CHECK(found != running_.rend());
  running_.erase(std::next(found).base());
}

// Gives up what was computed; its full blocks stay in the prefix cache for as long as nobody needs
// the room.
void Scheduler::preempt(Sequence& sequence) {
  stop_running(sequence);
  blocks_.shrink(sequence.block_table, 0);
  sequence.num_computed_tokens = 0;
  sequence.draft_token_ids.clear();
  sequence.state = SequenceState::kWaiting;
  sequence.preempted = true;
  ++sequence.num_preemptions;
  ++totals_.preemptions;
  waiting_.insert(&sequence);
}

// --- one step ------------------------------------------------------------------------------------

Plan Scheduler::schedule() {
  Plan plan;
  Budget budget = start_step();
  // Where blocks were so short that someone had to go, nobody may come.
  if (schedule_running(plan, budget)) admit_waiting(plan, budget);
  top_up(plan, budget);
  add_drafts(plan, budget);
  // Kernels for few query rows compute the sequences that stand first. A prompt of many chunks is
  // older than those that decode beside it.
  const auto length_class = [](const ScheduledSlice& slice) {
    return slice.num_tokens == 1 ? 0 : slice.num_tokens <= ops::kMaxShortRows ? 1 : 2;
  };
  std::stable_sort(plan.slices.begin(), plan.slices.end(),
                   [&](const auto& a, const auto& b) { return length_class(a) < length_class(b); });
  return plan;
}

Scheduler::Budget Scheduler::start_step() const {
  Budget budget{config_.max_num_batched_tokens, config_.max_logit_rows};
  for (const Sequence* sequence : running_) budget.decode_tokens += is_decode(*sequence) ? 1 : 0;
  budget.share_prefill = short_prompt_wants_in();
  return budget;
}

bool Scheduler::short_prompt_wants_in() const {
  const auto is_short_prompt = [&](const Sequence* sequence) {
    return !is_decode(*sequence) &&
           2 * sequence->num_pending_tokens() <= config_.max_num_batched_tokens;
  };
  if (std::any_of(running_.begin(), running_.end(), is_short_prompt)) return true;
  const auto scanned = std::next(waiting_.begin(), std::min(kMaxScan, num_waiting()));
  return std::any_of(waiting_.begin(), scanned, is_short_prompt);
}

// How many tokens the sequence may have of what is left. A prompt that needs more than a whole step
// takes no more than half where a short one could share it.
int64_t Scheduler::chunk_of(const Sequence& sequence, const Budget& budget) const {
  if (is_decode(sequence)) return std::min({int64_t{1}, budget.tokens, budget.logit_rows});
  const int64_t pending = sequence.num_pending_tokens();
  const int64_t left = budget.tokens - budget.decode_tokens;
  int64_t chunk = std::min(pending, left);
  if (config_.long_prefill_token_threshold > 0) {
    chunk = std::min(chunk, config_.long_prefill_token_threshold);
  } else if (budget.share_prefill && pending > config_.max_num_batched_tokens) {
    chunk = std::min(chunk, (left + 1) / 2);
  }
  if (sequence.wants_hidden) return std::max<int64_t>(0, chunk);
  const int64_t rows_from = std::max(sequence.num_computed_tokens, sequence.first_logit_position);
  const int64_t rows_end = rows_from + budget.logit_rows - budget.decode_tokens;
  return std::max<int64_t>(0, std::min(chunk, rows_end - sequence.num_computed_tokens));
}

void Scheduler::append_slice(Plan& plan, Budget& budget, Sequence& sequence, int64_t num_tokens) {
  const ScheduledSlice slice = slice_of(sequence, num_tokens);
  plan.slices.push_back(slice);
  plan.num_tokens += slice.num_tokens;
  plan.num_logit_rows += slice.num_logit_rows;
  plan.num_hidden_rows += slice.num_hidden_rows;
  budget.tokens -= slice.num_tokens;
  budget.logit_rows -= slice.num_logit_rows;
}

// Returns whether all could stay.
bool Scheduler::schedule_running(Plan& plan, Budget& budget) {
  bool all_stay = true;
  // Preemption shortens the list from its end: only sequences that have no slice yet.
  for (size_t i = 0; i < running_.size() && budget.tokens > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int64_t chunk = chunk_of(sequence, budget);
    if (chunk == 0) continue;
    const bool decode = is_decode(sequence);
    while (sequence.state == SequenceState::kRunning && !grow(sequence, plan.copies)) {
      preempt(*running_.back());
      all_stay = false;
    }
    if (sequence.state != SequenceState::kRunning) break;
    append_slice(plan, budget, sequence, chunk);
    if (decode) --budget.decode_tokens;
  }
  budget.decode_tokens = 0;
  return all_stay;
}

void Scheduler::admit_waiting(Plan& plan, Budget& budget) {
  std::vector<Sequence*> passed;
  for (auto next = waiting_.begin();
       next != waiting_.end() && static_cast<int64_t>(passed.size()) < kMaxScan &&
       num_seats_ < config_.max_num_seqs && budget.tokens > 0 && budget.logit_rows > 0;) {
    Sequence& sequence = **next;
    const bool seated = num_seats_ + 1 + sequence.num_forks <= config_.max_num_seqs;
    const PrefixMatch match = seated ? find_prefix(sequence) : PrefixMatch();
    if (!seated || !should_admit(sequence, match)) {
      if (sequence.num_overtakes >= kMaxOvertakes) return;
      passed.push_back(&sequence);
      ++next;
      continue;
    }
    next = waiting_.erase(next);
    admit(sequence, match);
    append_slice(plan, budget, sequence, chunk_of(sequence, budget));
    for (Sequence* overtaken : passed) ++overtaken->num_overtakes;
    totals_.overtakes += passed.empty() ? 0 : 1;
  }
}

// Tokens whose logits are wanted must be computed, the last one at least.
PrefixMatch Scheduler::find_prefix(const Sequence& sequence) const {
  const auto limit = static_cast<size_t>(sequence.first_logit_position);
  return blocks_.match(std::span(sequence.token_ids).first(limit), sequence.cache_extras);
}

// Blocks for all tokens: what a chunked prompt still needs can then not be promised to another.
// Where blocks are given back on the way, as far as a step may go.
bool Scheduler::grow(Sequence& sequence, std::vector<BlockCopy>& copies) {
  const int64_t begin = sequence.num_computed_tokens;
  const int64_t end = sequence.num_tokens();
  const int64_t step_end = std::min(end, begin + config_.max_num_batched_tokens);
  return blocks_.grow(sequence.block_table, begin, {step_end, end}, copies);
}

bool Scheduler::should_admit(const Sequence& sequence, const PrefixMatch& match) const {
  const int64_t peak = blocks_.peak_blocks(sequence.num_tokens(), config_.max_num_batched_tokens);
  const int64_t needed = peak - match.num_used;
  if (running_.empty()) return needed <= blocks_.num_available_blocks();
  const double with_growth = std::ceil(static_cast<double>(needed) * config_.admission_factor);
  const int64_t copied = sequence.num_forks * blocks_.num_groups();
  const int64_t demand = static_cast<int64_t>(with_growth) + copied;
  return demand <= blocks_.num_available_blocks() - watermark_blocks_;
}

void Scheduler::admit(Sequence& sequence, const PrefixMatch& match) {
  const int64_t found = blocks_.num_tokens_of(match);
  blocks_.acquire(sequence.block_table, match);
  sequence.num_computed_tokens = found;
  std::vector<BlockCopy> copies;
  const bool fits = grow(sequence, copies);
  OCTAVO_CHECK(fits && copies.empty());
  if (sequence.preempted) {
    totals_.recomputed_queries += sequence.num_tokens();
    totals_.recomputed_hits += found;
  } else {
    totals_.prefix_cache_queries += sequence.num_tokens();
    totals_.prefix_cache_hits += found;
    sequence.num_cached_tokens = found;
  }
  start_running(sequence);
}

// What sharing left over goes to the prompts that were cut, in their order.
void Scheduler::top_up(Plan& plan, Budget& budget) const {
  if (config_.long_prefill_token_threshold > 0) return;
  budget.share_prefill = false;
  for (ScheduledSlice& slice : plan.slices) {
    if (budget.tokens == 0) return;
    Sequence& sequence = *slice.sequence;
    if (slice.num_tokens == sequence.num_pending_tokens()) continue;
    budget.tokens += slice.num_tokens;
    budget.logit_rows += slice.num_logit_rows;
    const ScheduledSlice more = slice_of(sequence, chunk_of(sequence, budget));
    plan.num_tokens += more.num_tokens - slice.num_tokens;
    plan.num_logit_rows += more.num_logit_rows - slice.num_logit_rows;
    plan.num_hidden_rows += more.num_hidden_rows - slice.num_hidden_rows;
    budget.tokens -= more.num_tokens;
    budget.logit_rows -= more.num_logit_rows;
    slice = more;
  }
}

// How many drafts a sequence that decodes may have, with blocks for them: of those that no running
// one needs next and nobody waits for, and no further than its last token, which nothing comes
// after.
int64_t Scheduler::num_drafts_of(Sequence& sequence, const Budget& budget) {
  const int64_t num_tokens = sequence.num_tokens();
  const int64_t most =
      std::min({static_cast<int64_t>(sequence.draft_token_ids.size()),
                sequence.max_num_tokens - num_tokens - 1, budget.tokens, budget.logit_rows});
  if (most <= 0) return 0;
  const int64_t block_size = blocks_.block_size();
  const int64_t last_page_end = (num_tokens + block_size - 1) / block_size * block_size;
  const int64_t needed = num_running() * blocks_.num_groups();
  const int64_t spare =
      waiting_.empty() ? std::max<int64_t>(0, blocks_.num_available_blocks() - needed) : 0;
  const int64_t end = last_page_end + spare / blocks_.num_groups() * block_size;
  const int64_t num_drafts = std::min(most, end - num_tokens);
  std::vector<BlockCopy> copies;
  const bool fits = blocks_.grow(sequence.block_table, sequence.num_computed_tokens,
                                 {num_tokens + num_drafts, num_tokens + num_drafts}, copies);
  OCTAVO_CHECK(fits && copies.empty());
  return num_drafts;
}

// What is left when all others have got theirs: a guess is worth less than a token that is known,
// and less than a request that gets in.
void Scheduler::add_drafts(Plan& plan, Budget& budget) {
  for (ScheduledSlice& slice : plan.slices) {
    if (!is_decode(*slice.sequence) || slice.num_logit_rows == 0) continue;
    const int64_t num_drafts = num_drafts_of(*slice.sequence, budget);
    slice.num_draft_tokens = num_drafts;
    slice.num_tokens += num_drafts;
    slice.num_logit_rows += num_drafts;
    plan.num_tokens += num_drafts;
    plan.num_logit_rows += num_drafts;
    budget.tokens -= num_drafts;
    budget.logit_rows -= num_drafts;
  }
}

void Scheduler::complete(const Plan& plan) {
  for (const ScheduledSlice& slice : plan.slices) make_findable(*slice.sequence);
}

void Scheduler::accept_drafts(Sequence& sequence, int64_t num_drafts) {
  sequence.num_computed_tokens += num_drafts;
  OCTAVO_CHECK(sequence.num_pending_tokens() >= 0);
  make_findable(sequence);
  blocks_.shrink(sequence.block_table, sequence.num_tokens());  // those of wrong ones
}

void Scheduler::make_findable(Sequence& sequence) {
  sequence.first_logit_position =
      std::max(sequence.first_logit_position, sequence.num_computed_tokens);
  blocks_.index_computed(sequence.block_table, sequence.token_ids, sequence.num_computed_tokens,
                         sequence.cache_extras);
  blocks_.release_unseen(sequence.block_table, sequence.num_computed_tokens);
}

}  // namespace octavo::engine
