#include "engine/prefix_index.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

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

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t block_size, int64_t num_remembered)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      entries_(num_blocks + num_remembered),
      tokens_(entries_.size() * static_cast<size_t>(block_size)),
      buckets_(std::bit_ceil(entries_.size()), -1) {
  OCTAVO_CHECK(entries_.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()));
}

uint64_t PrefixIndex::hash_of(const Key& key) {
  uint64_t hash = mix(key.parent + 0x9E3779B97F4A7C15u);
  for (const TokenId id : key.tokens) hash = mix(hash + static_cast<uint32_t>(id));
  return key.extras.empty() ? hash : mix(hash + std::hash<std::string_view>()(key.extras));
}

bool PrefixIndex::equals(int32_t slot, const Key& key) const {
  if (entries_[slot].parent != key.parent) return false;
  const auto own = tokens_.begin() + slot * block_size_;
  if (!std::equal(key.tokens.begin(), key.tokens.end(), own)) return false;
  if (key.parent != 0) return true;
  const auto extras = extras_.find(slot);
  return extras == extras_.end() ? key.extras.empty() : extras->second == key.extras;
}

int32_t PrefixIndex::find_slot(const Key& key) const {
  const uint64_t hash = hash_of(key);
  int32_t slot = buckets_[bucket_of(hash)];
  while (slot >= 0 && !(entries_[slot].hash == hash && equals(slot, key))) {
    slot = entries_[slot].next;
  }
  return slot;
}

PrefixIndex::Found PrefixIndex::find(const Key& key) const {
  const int32_t slot = find_slot(key);
  if (slot < 0) return {};
  return {entries_[slot].chain_id, slot < num_blocks_ ? slot : -1};
}

void PrefixIndex::link(int32_t slot, const Entry& entry) {
  int32_t& bucket = buckets_[bucket_of(entry.hash)];
  entries_[slot] = entry;
  entries_[slot].next = bucket;
  bucket = slot;
}

void PrefixIndex::unlink(int32_t slot) {
  int32_t* from = &buckets_[bucket_of(entries_[slot].hash)];
  while (*from != slot) from = &entries_[*from].next;
  *from = entries_[slot].next;
  entries_[slot] = {};
  extras_.erase(slot);
}

void PrefixIndex::move(int32_t to, int32_t from) {
  const Entry entry = entries_[from];
  std::copy_n(tokens_of(from), block_size_, tokens_of(to));
  auto extras = extras_.extract(from);
  unlink(from);
  link(to, entry);
  if (extras.empty()) return;
  extras.key() = to;
  extras_.insert(std::move(extras));
}

ChainId PrefixIndex::insert(int32_t block, const Key& key) {
  OCTAVO_CHECK(!contains(block));
  OCTAVO_CHECK(static_cast<int64_t>(key.tokens.size()) == block_size_);
  OCTAVO_CHECK(key.parent == 0 || key.extras.empty());
  const int32_t remembered = find_slot(key);
  if (remembered >= 0) {
    OCTAVO_CHECK(remembered >= num_blocks_);
    move(block, remembered);
    return chain_id(block);
  }
  link(block, {next_chain_id_++, key.parent, hash_of(key)});
  std::copy(key.tokens.begin(), key.tokens.end(), tokens_of(block));
  if (!key.extras.empty()) extras_[block] = key.extras;
  return chain_id(block);
}

void PrefixIndex::erase(int32_t block) {
  OCTAVO_CHECK(contains(block));
  const int64_t num_remembered = static_cast<int64_t>(entries_.size()) - num_blocks_;
  if (num_remembered == 0) return unlink(block);
  const auto slot = static_cast<int32_t>(num_blocks_ + next_remembered_);
  next_remembered_ = (next_remembered_ + 1) % num_remembered;
  if (contains(slot)) unlink(slot);
  move(slot, block);
}

void PrefixIndex::clear() {
  std::fill(entries_.begin(), entries_.end(), Entry{});
  std::fill(buckets_.begin(), buckets_.end(), -1);
  extras_.clear();
}

}  // namespace octavo::engine
