// BlockManager: which KV blocks are in use, by how many sequences, and what the unused ones still
// hold. Logical only: it knows no device; a copy that sharing makes necessary is handed to the
// caller. Every block is used (someone refers to it), cached (nobody does, its contents can be
// found) or free.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/attention_span.h"
#include "engine/block_pool.h"
#include "engine/prefix_index.h"
#include "octavo/engine.h"

namespace octavo::engine {

// The blocks of one sequence.
struct BlockTable {
  std::vector<int32_t> blocks;     // logical page -> physical block; -1: given back
  int64_t num_indexed_blocks = 0;  // leading ones that the prefix cache knows
  ChainId chain_id = 0;            // of the last of these
};

// The contents of block `source` are needed in block `destination`.
struct BlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// Cached blocks that begin a sequence: as many tokens need not be computed.
struct PrefixMatch {
  std::vector<int32_t> blocks;  // -1: no layer looks so far back
  int64_t num_unneeded = 0;     // of these, the -1
  int64_t num_used = 0;         // of these, others refer to already
  ChainId chain_id = 0;
};

class BlockManager {
 public:
  BlockManager(int64_t num_blocks, int64_t block_size, bool enable_prefix_caching = false,
               AttentionSpan span = {});

  int64_t block_size() const { return block_size_; }
  const AttentionSpan& span() const { return span_; }
  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t num_used_blocks() const { return num_blocks() - pool_.num_unused(); }
  int64_t num_cached_blocks() const { return num_cached_; }
  int64_t num_free_blocks() const { return pool_.num_unused() - num_cached_; }

  // What can be given out: free blocks, and cached ones at the cost of their contents.
  int64_t num_available_blocks() const { return pool_.num_unused(); }

  // How many blocks hold `num_tokens` tokens.
  int64_t blocks_for(int64_t num_tokens) const {
    return (num_tokens + block_size_ - 1) / block_size_;
  }

  int64_t num_tokens_of(const PrefixMatch& match) const {
    return static_cast<int64_t>(match.blocks.size()) * block_size_;
  }

  // The longest run of full blocks that `tokens` begins with and whose contents are cached, as far
  // as what comes next sees them.
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view extras) const;

  // Makes an empty table begin with the blocks of a match; nothing may have changed since it.
  void acquire(BlockTable& table, const PrefixMatch& match);

  // Appends blocks to `table` until it holds `end` tokens, and gives it a block of its own in place
  // of a shared one that the tokens from `begin` on would be written to; the copy is added to
  // `copies`. False, and nothing changed, when too few blocks are available.
  bool grow(BlockTable& table, int64_t begin, int64_t end, std::vector<BlockCopy>& copies);

  // The same for a table that shares no blocks.
  bool grow(BlockTable& table, int64_t end);

  // A table of the same blocks, each with one more reference.
  BlockTable fork(const BlockTable& table);

  // Gives back the blocks of `table` beyond those that hold `num_tokens` tokens, the last one
  // first: a chain is then evicted from its end.
  void shrink(BlockTable& table, int64_t num_tokens);

  // Gives back the blocks that no layer looks at from the token at `next` on.
  void release_unseen(BlockTable& table, int64_t next);

  // Lets the prefix cache know the full blocks among the first `num_computed` tokens. A block that
  // it knows from elsewhere replaces the table's own: equal chains have equal contents, bit for
  // bit. Must not be called while a batch that names the old block is running.
  void index_computed(BlockTable& table, std::span<const TokenId> token_ids, int64_t num_computed,
                      std::string_view extras);

  // Forgets all cached contents. False, and nothing changed, while any block is used.
  bool reset_prefix_cache();

  std::vector<PageTableRow> page_table(const BlockTable& table) const;

  // Whether `tables`, all that exist, account for every reference, and the books agree.
  bool check_integrity(std::span<const BlockTable* const> tables) const;

 private:
  bool contains(int32_t block) const { return index_ != nullptr && index_->contains(block); }
  // The first page that the token at `position` sees.
  int64_t first_seen_page(int64_t position) const {
    return span_.first_visible(position) / block_size_;
  }
  int32_t take_block();
  void add_reference(int32_t block);
  void drop_reference(int32_t block);

  int64_t block_size_;
  AttentionSpan span_;
  BlockPool pool_;
  std::unique_ptr<PrefixIndex> index_;  // null: no prefix caching
  int64_t num_cached_ = 0;
};

}  // namespace octavo::engine
