// PrefixIndex: finds the block that holds the keys and values of given tokens after given others.
//
// A full block is known by its chain: the block before it, its own tokens, and for a first block
// what else its contents depend on (`extras`: the salt that keeps users apart, the choice of rope).
// Chains are numbered, and look-ups compare all of that, so that a hit can never be another text
// whose hash is the same.
//
// Where old blocks of a chain may be missing (sliding windows), the last that were forgotten are
// remembered without a block, so that those behind them are still found.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::engine {

// The number of a chain of full blocks, given once and never again. 0: the empty chain.
using ChainId = uint64_t;

class PrefixIndex {
 public:
  PrefixIndex(int64_t num_blocks, int64_t block_size, int64_t num_remembered = 0);

  struct Key {
    ChainId parent = 0;
    std::span<const TokenId> tokens;  // [block_size]
    std::string_view extras;          // of first blocks; those of the parent hold for the others
  };

  // What is known under this key; chain_id 0: nothing. `block` is -1 where it is only remembered.
  struct Found {
    ChainId chain_id = 0;
    int32_t block = -1;
  };
  Found find(const Key& key) const;

  // Puts in a block that is not in, under a key that no block has; returns the chain that ends with
  // it.
  ChainId insert(int32_t block, const Key& key);

  // Takes a block out. Its chain may be remembered.
  void erase(int32_t block);

  void clear();

  bool contains(int32_t block) const { return entries_[block].chain_id != 0; }
  ChainId chain_id(int32_t block) const { return entries_[block].chain_id; }

 private:
  struct Entry {
    ChainId chain_id = 0;  // 0: not in the index
    ChainId parent = 0;
    uint64_t hash = 0;
    int32_t next = -1;  // in the same bucket
  };

  static uint64_t hash_of(const Key& key);
  bool equals(int32_t slot, const Key& key) const;
  size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  int32_t find_slot(const Key& key) const;
  void link(int32_t slot, const Entry& entry);
  void unlink(int32_t slot);
  void move(int32_t to, int32_t from);
  TokenId* tokens_of(int32_t slot) { return tokens_.data() + slot * block_size_; }

  // A slot is a block's number, or one beyond them for what is only remembered.
  int64_t num_blocks_;
  int64_t block_size_;
  ChainId next_chain_id_ = 1;
  int64_t next_remembered_ = 0;   // where the next goes, in place of the oldest
  std::vector<Entry> entries_;    // [num_slots]
  std::vector<TokenId> tokens_;   // [num_slots, block_size]
  std::vector<int32_t> buckets_;  // first slot of each, or -1; a power of two of them
  std::unordered_map<int32_t, std::string> extras_;  // of slots that have any
};

}  // namespace octavo::engine
