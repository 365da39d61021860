// BlockPool: the physical KV blocks as numbers. Counts their references, and queues those that
// nobody refers to in the order in which they are given out again. It knows nothing of contents.
#pragma once

#include <cstdint>
#include <vector>

namespace octavo::engine {

class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t num_unused() const { return num_unused_; }
  int32_t reference_count(int32_t block) const { return blocks_[block].reference_count; }

  // The block at the front of the queue, which the caller then refers to; -1 where all are used.
  int32_t take();

  // One reference more; takes an unused block out of the queue, wherever it stands.
  void add_reference(int32_t block);

  // One reference less. A block without any is queued in front, to be reused first, or at the back.
  enum class Queue { kFront, kBack };
  void drop_reference(int32_t block, Queue where);

  // Whether the queue holds exactly the blocks without references, each once.
  bool check_integrity() const;

 private:
  // Links of a ring through the unused blocks; the last descriptor is its anchor.
  struct Block {
    int32_t reference_count = 0;
    int32_t previous = 0;
    int32_t next = 0;
  };

  int32_t anchor() const { return static_cast<int32_t>(blocks_.size()) - 1; }
  void link(int32_t block, int32_t after);
  void unlink(int32_t block);

  std::vector<Block> blocks_;
  int64_t num_unused_ = 0;
};

}  // namespace octavo::engine
