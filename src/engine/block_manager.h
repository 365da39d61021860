// BlockManager: which KV blocks are in use. Logical only: it knows no device. Blocks carry
// reference counts, so that sequences can come to share them.
#pragma once

#include <cstdint>
#include <vector>

namespace octavo::engine {

class BlockManager {
 public:
  BlockManager(int64_t num_blocks, int64_t block_size);

  int64_t block_size() const { return block_size_; }
  int64_t num_blocks() const { return static_cast<int64_t>(reference_counts_.size()); }
  int64_t num_free_blocks() const { return static_cast<int64_t>(free_.size()); }

  // How many blocks hold `num_tokens` tokens.
  int64_t blocks_for(int64_t num_tokens) const {
    return (num_tokens + block_size_ - 1) / block_size_;
  }

  // Appends blocks to `table` until it holds `num_tokens` tokens. False, and nothing changed, when
  // too few are free.
  bool grow(std::vector<int32_t>& table, int64_t num_tokens);

  // Gives back the blocks of `table` beyond those that hold `num_tokens` tokens.
  void shrink(std::vector<int32_t>& table, int64_t num_tokens);

  // Free and used blocks add up, and no free block has references.
  bool check_integrity() const;

 private:
  int64_t block_size_;
  std::vector<int32_t> free_;  // the last one is given out next
  std::vector<int32_t> reference_counts_;
};

}  // namespace octavo::engine
