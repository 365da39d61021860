// MergeTable: the pairs of tokens that merge, for byte-pair encoding.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// (left, right) -> (rank, result).
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNoRank;
    TokenId result = kNoToken;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  explicit MergeTable(size_t capacity);

  // Does nothing where the pair is there already: the lower rank, which comes first, stays.
  void insert(TokenId left, TokenId right, Merge merge);
  // Of rank kNoRank where the pair does not merge.
  Merge find(TokenId left, TokenId right) const;

  // Calls visit(left, right) for every pair.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.left != kNoToken) visit(slot.left, slot.right);
    }
  }

 private:
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    Merge merge;
  };
  size_t slot_of(TokenId left, TokenId right) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace octavo::tokenizer
