#include "engine/model_drafter.h"

#include <algorithm>

#include "base/check.h"
#include "engine/choose_rope.h"
#include "engine/sampler.h"

namespace octavo::engine {

ModelDrafter::ModelDrafter(ModelDrafterConfig config, std::unique_ptr<Executor> executor)
    : config_(std::move(config)),
      executor_(std::move(executor)),
      blocks_(config_.num_blocks, config_.block_size, config_.enable_prefix_caching,
              config_.groups) {}

void ModelDrafter::forget(const Sequence& sequence) {
  const auto found = followers_.find(&sequence);
  if (found == followers_.end()) return;
  blocks_.shrink(found->second->block_table, 0);
  followers_.erase(found);
}

// Sequences that wait may still have blocks here: they are computed again.
void ModelDrafter::reset_prefix_cache() {
  for (const auto& entry : followers_) give_back(*entry.second);
  const bool unused = blocks_.reset_prefix_cache();
  OCTAVO_CHECK(unused);
}

ModelDrafter::Follower& ModelDrafter::follow(const Sequence& target) {
  std::unique_ptr<Follower>& follower = followers_[&target];
  if (follower == nullptr) {
    follower = std::make_unique<Follower>();
    follower->max_num_tokens = target.max_num_tokens;
    follower->cache_extras = target.cache_extras;
    choose_rope(*follower, config_.rope);
  }
  catch_up(*follower, target);
  return *follower;
}

// What both have stays computed, however much of it was a draft, but for the last token: of that,
// logits are wanted.
void ModelDrafter::catch_up(Follower& follower, const Sequence& target) const {
  std::vector<TokenId>& own = follower.token_ids;
  int64_t common = follower.num_verified;
  while (common < std::min(follower.num_tokens(), target.num_tokens()) &&
         own[common] == target.token_ids[common]) {
    ++common;
  }
  own.resize(static_cast<size_t>(common));
  follower.num_computed_tokens =
      std::min({follower.num_computed_tokens, common, target.num_tokens() - 1});
  for (int64_t i = common; i < target.num_tokens(); ++i) {
    own.push_back(target.token_ids[i]);
    if (own.back() >= config_.vocab_size) follower.foreign = true;
  }
  follower.num_verified = target.num_tokens();
}

// Who has no blocks begins with what the prefix cache has of it.
void ModelDrafter::find_prefix(Follower& follower) {
  if (!follower.block_table.blocks.empty()) return;
  const auto limit = static_cast<size_t>(follower.num_tokens() - 1);
  const PrefixMatch match =
      blocks_.match(std::span(follower.token_ids).first(limit), follower.cache_extras);
  blocks_.acquire(follower.block_table, match);
  follower.num_computed_tokens = blocks_.num_tokens_of(match);
}

bool ModelDrafter::find_room(Follower& follower) {
  const int64_t begin = follower.num_computed_tokens;
  const int64_t end = follower.num_tokens();
  const int64_t step_end = std::min(end, begin + config_.max_num_batched_tokens);
  std::vector<BlockCopy> copies;
  const bool fits = blocks_.grow(follower.block_table, begin, {step_end, end}, copies);
  OCTAVO_CHECK(copies.empty());
  return fits;
}

void ModelDrafter::give_back(Follower& follower) {
  blocks_.shrink(follower.block_table, 0);
  follower.num_computed_tokens = 0;
}

// Of sequences that wait, or do not want drafts: they are computed again when they do.
void ModelDrafter::drop_idle(std::span<const DraftRequest> requests) {
  for (const auto& entry : followers_) {
    const Sequence* const target = entry.first;
    const auto is_wanted = [target](const DraftRequest& one) { return one.sequence == target; };
    if (std::any_of(requests.begin(), requests.end(), is_wanted)) continue;
    give_back(*entry.second);
  }
}

// One pass over all that is missing, up to what a step may hold, and then one for each further
// draft. Who has not caught up after the first goes on the next time.
Status ModelDrafter::propose(std::span<const DraftRequest> requests) {
  std::vector<Drafting> drafting;
  for (const DraftRequest& request : requests) {
    Follower& follower = follow(*request.sequence);
    const int64_t room = config_.max_model_len - follower.num_tokens();
    const int64_t count = std::min(request.num_tokens, room);
    if (count <= 0 || follower.foreign) {  // and never again
      give_back(follower);
      continue;
    }
    find_prefix(follower);
    drafting.push_back({&follower, request.sequence, count});
  }
  bool idle_dropped = false;
  for (bool first = true;; first = false) {
    std::vector<Drafting*> step;
    for (Drafting& one : drafting) {
      if (one.num_left == 0 || (!first && one.follower->num_pending_tokens() != 1)) continue;
      bool fits = find_room(*one.follower);
      if (!fits && !std::exchange(idle_dropped, true)) {
        drop_idle(requests);
        fits = find_room(*one.follower);
      }
      if (fits) step.push_back(&one);
    }
    if (step.empty()) return {};
    // Kernels for few query rows compute the sequences that stand first.
    std::stable_sort(step.begin(), step.end(), [](const Drafting* a, const Drafting* b) {
      return a->follower->num_pending_tokens() < b->follower->num_pending_tokens();
    });
    OCTAVO_TRY(compute(step));
  }
}

Status ModelDrafter::compute(std::span<Drafting* const> drafting) {
  Plan plan;
  int64_t budget = config_.max_num_batched_tokens;
  for (const Drafting* one : drafting) {
    Follower& follower = *one->follower;
    const int64_t pending = follower.num_pending_tokens();
    const int64_t chunk = std::min(pending, budget);
    const bool last = chunk == pending;
    if (chunk == 0 || (last && plan.num_logit_rows == config_.max_logit_rows)) break;
    plan.slices.push_back({&follower, chunk, last ? 1 : 0});
    plan.num_tokens += chunk;
    plan.num_logit_rows += last ? 1 : 0;
    budget -= chunk;
  }
  plan.draws.assign(static_cast<size_t>(plan.num_logit_rows), {.kind = ops::DrawKind::kGreedy});
  OCTAVO_TRY(executor_->execute_async(plan));
  const StepOutput output = OCTAVO_TRY(executor_->wait());
  OCTAVO_TRY(take_tokens(plan, output, drafting));
  for (const ScheduledSlice& slice : plan.slices) settle(static_cast<Follower&>(*slice.sequence));
  return {};
}

Status ModelDrafter::take_tokens(const Plan& plan, const StepOutput& output,
                                 std::span<Drafting* const> drafting) {
  int64_t row = 0;
  for (const ScheduledSlice& slice : plan.slices) {
    if (slice.num_logit_rows == 0) continue;
    TokenId id = output.token(row);
    if (id < 0) {
      id = OCTAVO_TRY(
          argmax({output.logits.row<float>(row), static_cast<size_t>(output.logits.cols)}));
    }
    ++row;
    Drafting& one = **std::find_if(drafting.begin(), drafting.end(), [&](const Drafting* d) {
      return d->follower == slice.sequence;
    });
    if (id >= config_.target_vocab_size) {
      one.num_left = 0;
      continue;
    }
    one.target->draft_token_ids.push_back(id);
    one.follower->token_ids.push_back(id);
    --one.num_left;
  }
  return {};
}

// Others may find what was computed of tokens that both have; drafts are nobody's business. The
// last token may have to be computed again, in a block of its own.
void ModelDrafter::settle(Follower& follower) {
  const int64_t num_sure = std::min(follower.num_computed_tokens, follower.num_verified - 1);
  blocks_.index_computed(follower.block_table, follower.token_ids, num_sure, follower.cache_extras);
  blocks_.release_unseen(follower.block_table, num_sure);
}

bool ModelDrafter::check_integrity() const {
  std::vector<const BlockTable*> tables;
  for (const auto& [target, follower] : followers_) tables.push_back(&follower->block_table);
  return blocks_.check_integrity(tables);
}

}  // namespace octavo::engine
