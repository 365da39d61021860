#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

namespace octavo::tokenizer {

MergeTable::MergeTable(size_t capacity)
    : slots_(std::bit_ceil(std::max<size_t>(2 * capacity, 2))) {}

size_t MergeTable::slot_of(TokenId left, TokenId right) const {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  const uint64_t hash = key * 0x9E3779B97F4A7C15u;
  const size_t mask = slots_.size() - 1;
  for (size_t i = (hash ^ hash >> 32) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if ((slot.left == left && slot.right == right) || slot.left == kNoToken) return i;
  }
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.left == kNoToken) slot = {left, right, merge};
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(left, right)].merge;
}

}  // namespace octavo::tokenizer
