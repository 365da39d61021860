// PrefixIndex: finds the blocks that hold the keys and values of given tokens after given others.
//
// A full page is known by its chain: the page before it, its own tokens, and for a first page what
// else its contents depend on (`extras`: the salt that keeps users apart, the choice of rope).
// Chains are numbered, and look-ups compare all of that, so that a hit can never be another text
// whose hash is the same. A page has a block for each group of layers.
//
// Where old blocks of a chain may be missing (sliding windows), pages that have lost their blocks
// stay known until their room is needed, the oldest first, so that those behind are still found.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/block_pool.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

// The number of a chain of full pages, given once and never again. 0: the empty chain.
using ChainId = uint64_t;

class PrefixIndex {
 public:
  // `num_remembered`: how many pages without blocks are known beside as many as there are blocks.
  PrefixIndex(int64_t num_blocks, int64_t num_groups, int64_t block_size,
              int64_t num_remembered = 0);

  struct Key {
    ChainId parent = 0;
    std::span<const TokenId> tokens;  // [block_size]
    std::string_view extras;          // of first pages; those of the parent hold for the others
  };

  // The page that is known under this key; -1: none.
  int32_t find(const Key& key) const;
  int32_t find_or_add(const Key& key);

  // The chain that ends with a page, and its blocks, [num_groups]; -1: gone.
  ChainId chain_id(int32_t page) const { return entries_[page].chain_id; }
  std::span<const int32_t> blocks(int32_t page) const {
    return std::span(blocks_).subspan(page * num_groups_, num_groups_);
  }

  // Gives a page the block of a group that it lacks; the block is not in yet.
  void insert(int32_t block, int32_t page, int64_t group);

  // Takes a block out.
  void erase(int32_t block);

  // Forgets everything.
  void clear();

  bool contains(int32_t block) const { return page_of_[block] >= 0; }
  int32_t page_of(int32_t block) const { return page_of_[block]; }

 private:
  struct Entry {
    ChainId chain_id = 0;  // 0: no page yet
    ChainId parent = 0;
    uint64_t hash = 0;
    int32_t next = -1;  // in the same bucket
  };

  static uint64_t hash_of(const Key& key);
  bool equals(int32_t page, const Key& key) const;
  size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  int32_t find(const Key& key, uint64_t hash) const;
  void unlink(int32_t page);

  int64_t num_groups_;
  int64_t block_size_;
  ChainId next_chain_id_ = 1;
  BlockPool pages_;               // that have blocks, and the others from the oldest on
  std::vector<Entry> entries_;    // [num_pages]
  std::vector<int32_t> blocks_;   // [num_pages, num_groups]
  std::vector<TokenId> tokens_;   // [num_pages, block_size]
  std::vector<int32_t> buckets_;  // first page of each, or -1; a power of two of them
  std::vector<int32_t> page_of_;  // [num_blocks], -1: not in
  std::unordered_map<int32_t, std::string> extras_;  // of pages that have any
};

}  // namespace octavo::engine
