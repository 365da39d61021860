// BlockManager: which KV blocks are in use, by how many sequences, and what the unused ones still
// hold. Logical only: it knows no device; a copy that sharing makes necessary is handed to the
// caller. Every block is used (someone refers to it), cached (nobody does, its contents can be
// found) or free.
//
// A sequence has a block table for each group of layers that look back equally far; all take their
// blocks from one pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/block_pool.h"
#include "engine/prefix_index.h"
#include "model/attention_span.h"
#include "octavo/engine.h"

namespace octavo::engine {

using model::AttentionSpan;

// The blocks of one sequence.
struct BlockTable {
  std::vector<int32_t> blocks;    // [page, group], physical; -1: given back, or not needed yet
  int64_t num_filled_pages = 0;   // up to where every group has got its blocks
  int64_t num_indexed_pages = 0;  // leading ones that the prefix cache knows
  ChainId chain_id = 0;           // of the last of these
};

// The contents of block `source` are needed in block `destination`.
struct BlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// Cached blocks that begin a sequence: as many tokens need not be computed.
struct PrefixMatch {
  std::vector<int32_t> blocks;  // [page, group]; -1: no layer of the group looks so far back
  int64_t num_used = 0;         // of these, others refer to already
  ChainId chain_id = 0;
};

// How far a table is to grow.
struct Reach {
  int64_t step_end = 0;  // in all groups
  int64_t end = 0;       // in groups that keep all blocks; at least step_end
};

class BlockManager {
 public:
  // `groups`: how far back the layers of each look.
  BlockManager(int64_t num_blocks, int64_t block_size, bool enable_prefix_caching = false,
               std::vector<AttentionSpan> groups = {AttentionSpan()});

  int64_t block_size() const { return block_size_; }
  int64_t num_groups() const { return static_cast<int64_t>(groups_.size()); }
  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t num_used_blocks() const { return num_blocks() - pool_.num_unused(); }
  int64_t num_cached_blocks() const { return num_cached_; }
  int64_t num_free_blocks() const { return pool_.num_unused() - num_cached_; }

  // What can be given out: free blocks, and cached ones at the cost of their contents.
  int64_t num_available_blocks() const { return pool_.num_unused(); }

  // The most blocks that a sequence of up to `num_tokens` tokens holds at a time, if a step
  // computes at most `step_tokens` of them.
  int64_t peak_blocks(int64_t num_tokens, int64_t step_tokens) const {
    return model::peak_blocks(groups_, num_tokens, step_tokens, block_size_);
  }

  int64_t num_tokens_of(const PrefixMatch& match) const {
    return static_cast<int64_t>(match.blocks.size()) / num_groups() * block_size_;
  }

  // The longest run of full pages that `tokens` begins with and whose contents are cached, as far
  // as what comes next sees them.
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view extras) const;

  // Makes an empty table begin with the blocks of a match; nothing may have changed since it.
  void acquire(BlockTable& table, const PrefixMatch& match);

  // Adds blocks to `table` until it holds as many tokens as `reach` says, and gives it blocks of
  // its own in place of shared ones that the tokens from `begin` on would be written to; the copies
  // are added to `copies`. False, and nothing changed, when too few blocks are available.
  bool grow(BlockTable& table, int64_t begin, Reach reach, std::vector<BlockCopy>& copies);

  // The same, in all groups, for a table that shares no blocks.
  bool grow(BlockTable& table, int64_t end);

  // A table of the same blocks, each with one more reference.
  BlockTable fork(const BlockTable& table);

  // Gives back the blocks of `table` beyond those that hold `num_tokens` tokens, the last one
  // first: a chain is then evicted from its end.
  void shrink(BlockTable& table, int64_t num_tokens);

  // Gives back the blocks that no layer of their group looks at from the token at `next` on.
  void release_unseen(BlockTable& table, int64_t next);

  // Lets the prefix cache know the full pages of the first `num_computed` tokens. A block that
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
  int64_t pages_for(int64_t num_tokens) const {
    return (num_tokens + block_size_ - 1) / block_size_;
  }
  int64_t num_pages(const BlockTable& table) const {
    return static_cast<int64_t>(table.blocks.size()) / num_groups();
  }
  // The first page that the token at `position` sees.
  int64_t first_seen_page(int64_t group, int64_t position) const {
    return groups_[group].first_visible(position) / block_size_;
  }
  int64_t num_shared(const BlockTable& table, int64_t page) const;
  int32_t take_block();
  void add_reference(int32_t block);
  void drop_reference(int32_t block);

  int64_t block_size_;
  std::vector<AttentionSpan> groups_;
  int64_t num_bounded_ = 0;  // of the groups
  BlockPool pool_;
  std::unique_ptr<PrefixIndex> index_;  // null: no prefix caching
  int64_t num_cached_ = 0;
};

}  // namespace octavo::engine
