#include "engine/speculator.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace octavo::engine {
namespace {

bool decodes(const Sequence& sequence) {
  return sequence.num_pending_tokens() == 1 && sequence.num_forks == 0 && !sequence.wants_hidden;
}

}  // namespace

Speculator::Speculator(const SpeculatorConfig& config, std::unique_ptr<Drafter> drafter)
    : config_(config),
      drafter_(std::move(drafter)),
      num_accepted_per_pos_(static_cast<size_t>(config.num_speculative_tokens)) {
  OCTAVO_CHECK(config.num_speculative_tokens > 0 && drafter_ != nullptr);
}

// A step of n sequences takes 1 + r * n, so that a token of it costs r + 1 / n. A draft costs a
// row, r, and its drafting: it pays where it is right more often than the share that this is of a
// token.
void Speculator::draft(std::span<Sequence* const> running) {
  for (Sequence* sequence : running) sequence->draft_token_ids.clear();
  if (drafter_ == nullptr) return;
  const auto num_decodes = std::count_if(running.begin(), running.end(),
                                         [](const Sequence* one) { return decodes(*one); });
  const double rows = config_.row_cost * static_cast<double>(num_decodes);
  const double threshold = rows / (1 + rows) + drafter_->relative_cost();
  requests_.clear();
  for (Sequence* sequence : running) {
    if (!decodes(*sequence)) continue;
    const int64_t left = sequence->max_num_tokens - sequence->num_tokens() - 1;
    const int64_t most = std::min(config_.num_speculative_tokens, left);
    if (most <= 0) continue;
    const int64_t count = lengths_[sequence].next(threshold, most);
    if (count > 0) requests_.push_back({sequence, count});
  }
  if (requests_.empty()) return;
  const Status status = propose(requests_);
  if (status.ok()) return;
  log_warning("speculative decoding stops: {}", status.message());
  for (Sequence* sequence : running) sequence->draft_token_ids.clear();
  drafter_ = nullptr;
}

Status Speculator::propose(std::span<const DraftRequest> requests) {
  try {
    return drafter_->propose(requests);
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}

void Speculator::observe(const Sequence& sequence, int64_t num_drafted, int64_t num_accepted) {
  lengths_[&sequence].observe(num_drafted, num_accepted);
  ++num_drafts_;
  num_draft_tokens_ += num_drafted;
  num_accepted_tokens_ += num_accepted;
  for (int64_t i = 0; i < num_accepted; ++i) ++num_accepted_per_pos_[i];
}

void Speculator::forget(const Sequence& sequence) {
  lengths_.erase(&sequence);
  if (drafter_ != nullptr) drafter_->forget(sequence);
}

void Speculator::reset_prefix_cache() {
  if (drafter_ != nullptr) drafter_->reset_prefix_cache();
}

void Speculator::add_to(EngineStats& stats) const {
  stats.spec_decode_num_drafts = num_drafts_;
  stats.spec_decode_num_draft_tokens = num_draft_tokens_;
  stats.spec_decode_num_accepted_tokens = num_accepted_tokens_;
  stats.spec_decode_num_accepted_tokens_per_pos = num_accepted_per_pos_;
}

}  // namespace octavo::engine
