#include "engine/block_manager.h"

#include "base/check.h"

namespace octavo::engine {

BlockManager::BlockManager(int64_t num_blocks, int64_t block_size)
    : block_size_(block_size), reference_counts_(num_blocks, 0) {
  OCTAVO_CHECK(num_blocks > 0 && block_size > 0);
  free_.reserve(num_blocks);
  for (int64_t block = num_blocks - 1; block >= 0; --block) {
    free_.push_back(static_cast<int32_t>(block));
  }
}

bool BlockManager::grow(std::vector<int32_t>& table, int64_t num_tokens) {
  const int64_t missing = blocks_for(num_tokens) - static_cast<int64_t>(table.size());
  if (missing > num_free_blocks()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    const int32_t block = free_.back();
    free_.pop_back();
    OCTAVO_DCHECK(reference_counts_[block] == 0);
    reference_counts_[block] = 1;
    table.push_back(block);
  }
  return true;
}

void BlockManager::shrink(std::vector<int32_t>& table, int64_t num_tokens) {
  while (static_cast<int64_t>(table.size()) > blocks_for(num_tokens)) {
    const int32_t block = table.back();
    table.pop_back();
    OCTAVO_CHECK(reference_counts_[block] > 0);
    if (--reference_counts_[block] == 0) free_.push_back(block);
  }
}

bool BlockManager::check_integrity() const {
  int64_t used = 0;
  for (const int32_t count : reference_counts_) used += count > 0 ? 1 : 0;
  for (const int32_t block : free_) {
    if (reference_counts_[block] != 0) return false;
  }
  return used + num_free_blocks() == num_blocks();
}

}  // namespace octavo::engine
