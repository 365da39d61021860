// NgramDrafter: guesses that a text repeats itself: what followed the same tokens when they came
// before, in the prompt or in the answer, follows again. Known as prompt lookup.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/drafter.h"

namespace octavo::engine {

// Where in a growing text the last tokens stood before.
class NgramIndex {
 public:
  // Matches have `least` to `most` tokens.
  NgramIndex(int64_t least, int64_t most) : least_(least), most_(most) {}

  // The end of the earlier place that has most tokens in common with the end of `tokens`, of equal
  // ones the last; 0: there is none. `tokens` begin with those of the last call.
  int64_t find(std::span<const TokenId> tokens);

 private:
  void extend(std::span<const TokenId> tokens);
  uint64_t hash_before(std::span<const TokenId> tokens, int64_t end) const;
  int64_t num_common(std::span<const TokenId> tokens, int64_t end) const;

  int64_t least_;
  int64_t most_;
  std::unordered_map<uint64_t, int32_t> last_;  // end of the last `least_` tokens with such a hash
  std::vector<int32_t> previous_;               // [end]: of the one before it; 0: there is none
};

class NgramDrafter final : public Drafter {
 public:
  NgramDrafter(int64_t least, int64_t most) : least_(least), most_(most) {}

  Status propose(std::span<const DraftRequest> requests) override;
  void forget(const Sequence& sequence) override { indices_.erase(&sequence); }

 private:
  int64_t least_;
  int64_t most_;
  std::unordered_map<const Sequence*, NgramIndex> indices_;
};

}  // namespace octavo::engine
