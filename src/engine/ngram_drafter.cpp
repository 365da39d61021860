#include "engine/ngram_drafter.h"

#include <algorithm>

#include "base/check.h"

namespace octavo::engine {
namespace {

// Earlier places that are compared: bounds the time of a text that says the same all over.
constexpr int kMostCandidates = 32;

}  // namespace

uint64_t NgramIndex::hash_before(std::span<const TokenId> tokens, int64_t end) const {
  uint64_t hash = 0;
  for (int64_t i = end - least_; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

// All ends but the last one: what the text is looked up by must not find itself.
void NgramIndex::extend(std::span<const TokenId> tokens) {
  const auto size = static_cast<int64_t>(tokens.size());
  OCTAVO_CHECK(size <= INT32_MAX && size >= static_cast<int64_t>(previous_.size()));
  previous_.reserve(tokens.size());
  for (auto end = static_cast<int64_t>(previous_.size()); end < size; ++end) {
    previous_.push_back(0);
    if (end < least_) continue;
    int32_t& last = last_[hash_before(tokens, end)];
    previous_.back() = last;
    last = static_cast<int32_t>(end);
  }
}

int64_t NgramIndex::num_common(std::span<const TokenId> tokens, int64_t end) const {
  const auto size = static_cast<int64_t>(tokens.size());
  int64_t count = 0;
  while (count < most_ && count < end && tokens[end - count - 1] == tokens[size - count - 1]) {
    ++count;
  }
  return count;
}

int64_t NgramIndex::find(std::span<const TokenId> tokens) {
  extend(tokens);
  const auto size = static_cast<int64_t>(tokens.size());
  if (size <= least_) return 0;
  const auto found = last_.find(hash_before(tokens, size));
  if (found == last_.end()) return 0;
  int64_t best = 0;
  int64_t longest = least_ - 1;
  int num_seen = 0;
  for (int64_t end = found->second; end > 0 && num_seen < kMostCandidates; ++num_seen) {
    const int64_t common = num_common(tokens, end);
    if (common > longest) {
      longest = common;
      best = end;
    }
    if (longest == most_) break;
    end = previous_[end];
  }
  return best;
}

// Where what followed reaches the text's end, it goes on with the guesses themselves: a text that
// has begun to repeat goes round.
Status NgramDrafter::propose(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    Sequence& sequence = *request.sequence;
    NgramIndex& index = indices_.try_emplace(&sequence, least_, most_).first->second;
    const int64_t next = index.find(sequence.token_ids);
    if (next == 0) continue;
    for (int64_t i = next; i < next + request.num_tokens; ++i) {
      sequence.draft_token_ids.push_back(sequence.token_or_draft(i));
    }
  }
  return {};
}

}  // namespace octavo::engine
