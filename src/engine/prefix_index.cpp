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

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t num_groups, int64_t block_size,
                         int64_t num_remembered)
    : num_groups_(num_groups),
      block_size_(block_size),
      pages_(num_blocks + num_remembered),
      entries_(num_blocks + num_remembered),
      blocks_(entries_.size() * static_cast<size_t>(num_groups), -1),
      tokens_(entries_.size() * static_cast<size_t>(block_size)),
      buckets_(std::bit_ceil(entries_.size()), -1),
      page_of_(num_blocks, -1) {}

uint64_t PrefixIndex::hash_of(const Key& key) {
  uint64_t hash = mix(key.parent + 0x9E3779B97F4A7C15u);
  for (const TokenId id : key.tokens) hash = mix(hash + static_cast<uint32_t>(id));
  return key.extras.empty() ? hash : mix(hash + std::hash<std::string_view>()(key.extras));
}

bool PrefixIndex::equals(int32_t page, const Key& key) const {
  if (entries_[page].parent != key.parent) return false;
  const auto own = tokens_.begin() + page * block_size_;
  if (!std::equal(key.tokens.begin(), key.tokens.end(), own)) return false;
  if (key.parent != 0) return true;
  const auto extras = extras_.find(page);
  return extras == extras_.end() ? key.extras.empty() : extras->second == key.extras;
}

int32_t PrefixIndex::find(const Key& key, uint64_t hash) const {
  int32_t page = buckets_[bucket_of(hash)];
  while (page >= 0 && !(entries_[page].hash == hash && equals(page, key))) {
    page = entries_[page].next;
  }
  return page;
}

int32_t PrefixIndex::find(const Key& key) const {
  return find(key, hash_of(key));
}

int32_t PrefixIndex::find_or_add(const Key& key) {
  OCTAVO_CHECK(static_cast<int64_t>(key.tokens.size()) == block_size_);
  OCTAVO_CHECK(key.parent == 0 || key.extras.empty());
  const uint64_t hash = hash_of(key);
  int32_t page = find(key, hash);
  if (page >= 0) return page;
  page = pages_.take();
  OCTAVO_CHECK(page >= 0);  // a page has a block, or may be forgotten
  if (entries_[page].chain_id != 0) unlink(page);
  int32_t& bucket = buckets_[bucket_of(hash)];
  entries_[page] = {next_chain_id_++, key.parent, hash, bucket};
  bucket = page;
  std::copy(key.tokens.begin(), key.tokens.end(), tokens_.begin() + page * block_size_);
  if (!key.extras.empty()) extras_[page] = key.extras;
  pages_.drop_reference(page, BlockPool::Queue::kBack);
  return page;
}

void PrefixIndex::unlink(int32_t page) {
  int32_t* from = &buckets_[bucket_of(entries_[page].hash)];
  while (*from != page) from = &entries_[*from].next;
  *from = entries_[page].next;
  entries_[page] = {};
  extras_.erase(page);
}

void PrefixIndex::insert(int32_t block, int32_t page, int64_t group) {
  int32_t& place = blocks_[page * num_groups_ + group];
  OCTAVO_CHECK(!contains(block) && place < 0);
  place = block;
  page_of_[block] = page;
  pages_.add_reference(page);
}

void PrefixIndex::erase(int32_t block) {
  OCTAVO_CHECK(contains(block));
  const int32_t page = page_of_[block];
  const auto first = blocks_.begin() + page * num_groups_;
  *std::find(first, first + num_groups_, block) = -1;
  page_of_[block] = -1;
  pages_.drop_reference(page, BlockPool::Queue::kBack);
}

void PrefixIndex::clear() {
  pages_ = BlockPool(pages_.num_blocks());
  std::fill(entries_.begin(), entries_.end(), Entry{});
  std::fill(blocks_.begin(), blocks_.end(), -1);
  std::fill(buckets_.begin(), buckets_.end(), -1);
  std::fill(page_of_.begin(), page_of_.end(), -1);
  extras_.clear();
}

}  // namespace octavo::engine
