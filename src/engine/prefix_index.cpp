#include "engine/prefix_index.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace octavo::engine {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t block_size)
    : block_size_(block_size),
      entries_(num_blocks),
      tokens_(num_blocks * block_size),
      buckets_(std::bit_ceil(static_cast<size_t>(num_blocks)), -1) {}

uint64_t PrefixIndex::hash_of(const Key& key) {
  uint64_t hash = mix(key.parent + 0x9E3779B97F4A7C15u);
  for (const TokenId id : key.tokens) hash = mix(hash + static_cast<uint32_t>(id));
  return key.extras.empty() ? hash : mix(hash + std::hash<std::string_view>()(key.extras));
}

bool PrefixIndex::equals(int32_t block, const Key& key) const {
  if (entries_[block].parent != key.parent) return false;
  const auto own = tokens_.begin() + block * block_size_;
  if (!std::equal(key.tokens.begin(), key.tokens.end(), own)) return false;
  if (key.parent != 0) return true;
  const auto extras = extras_.find(block);
  return extras == extras_.end() ? key.extras.empty() : extras->second == key.extras;
}

int32_t PrefixIndex::find(const Key& key) const {
  const uint64_t hash = hash_of(key);
  int32_t block = buckets_[bucket_of(hash)];
  while (block >= 0 && !(entries_[block].hash == hash && equals(block, key))) {
    block = entries_[block].next;
  }
  return block;
}

ChainId PrefixIndex::insert(int32_t block, const Key& key) {
  OCTAVO_CHECK(!contains(block));
  OCTAVO_CHECK(static_cast<int64_t>(key.tokens.size()) == block_size_);
  OCTAVO_CHECK(key.parent == 0 || key.extras.empty());
  const uint64_t hash = hash_of(key);
  int32_t& bucket = buckets_[bucket_of(hash)];
  entries_[block] = {next_chain_id_++, key.parent, hash, bucket};
  bucket = block;
  std::copy(key.tokens.begin(), key.tokens.end(), tokens_.begin() + block * block_size_);
  if (!key.extras.empty()) extras_[block] = key.extras;
  return entries_[block].chain_id;
}

void PrefixIndex::erase(int32_t block) {
  OCTAVO_CHECK(contains(block));
  int32_t* link = &buckets_[bucket_of(entries_[block].hash)];
  while (*link != block) link = &entries_[*link].next;
  *link = entries_[block].next;
  entries_[block] = {};
  extras_.erase(block);
}

}  // namespace octavo::engine
