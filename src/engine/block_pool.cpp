#include "engine/block_pool.h"

#include <limits>

#include "base/check.h"

namespace octavo::engine {

BlockPool::BlockPool(int64_t num_blocks) {
  OCTAVO_CHECK(num_blocks > 0 && num_blocks < std::numeric_limits<int32_t>::max());
  blocks_.resize(num_blocks + 1);
  blocks_[anchor()].previous = blocks_[anchor()].next = anchor();
  for (int32_t block = 0; block < num_blocks; ++block) link(block, blocks_[anchor()].previous);
}

void BlockPool::link(int32_t block, int32_t after) {
  const int32_t before = blocks_[after].next;
  blocks_[block].previous = after;
  blocks_[block].next = before;
  blocks_[after].next = block;
  blocks_[before].previous = block;
  ++num_unused_;
}

void BlockPool::unlink(int32_t block) {
  blocks_[blocks_[block].previous].next = blocks_[block].next;
  blocks_[blocks_[block].next].previous = blocks_[block].previous;
  --num_unused_;
}

int32_t BlockPool::take() {
  if (num_unused_ == 0) return -1;
  const int32_t block = blocks_[anchor()].next;
  add_reference(block);
  return block;
}

void BlockPool::add_reference(int32_t block) {
  if (blocks_[block].reference_count++ == 0) unlink(block);
}

void BlockPool::drop_reference(int32_t block, Queue where) {
  OCTAVO_CHECK(blocks_[block].reference_count > 0);
  if (--blocks_[block].reference_count > 0) return;
  link(block, where == Queue::kFront ? anchor() : blocks_[anchor()].previous);
}

bool BlockPool::check_integrity() const {
  std::vector<bool> queued(blocks_.size(), false);
  int64_t count = 0;
  for (int32_t block = blocks_[anchor()].next; block != anchor(); block = blocks_[block].next) {
    if (block < 0 || block > anchor() || queued[block]) return false;
    if (blocks_[block].reference_count != 0) return false;
    if (blocks_[blocks_[block].next].previous != block) return false;
    queued[block] = true;
    ++count;
  }
  int64_t unused = 0;
  for (int32_t block = 0; block < anchor(); ++block) {
    if (blocks_[block].reference_count < 0) return false;
    unused += blocks_[block].reference_count == 0 ? 1 : 0;
  }
  return count == unused && count == num_unused_;
}

}  // namespace octavo::engine
