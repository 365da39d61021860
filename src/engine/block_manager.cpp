#include "engine/block_manager.h"

#include <algorithm>

#include "base/check.h"

namespace octavo::engine {
namespace {

// Blocks that are gone and whose chains are remembered, as multiples of those that are there: a
// prompt of many windows is still found after its beginning was reused. They cost little: tokens,
// no keys and values.
constexpr int64_t kRememberedFactor = 4;
constexpr int64_t kMostRemembered = 1 << 20;

}  // namespace

BlockManager::BlockManager(int64_t num_blocks, int64_t block_size, bool enable_prefix_caching,
                           std::vector<AttentionSpan> groups)
    : block_size_(block_size), groups_(std::move(groups)), pool_(num_blocks) {
  OCTAVO_CHECK(block_size > 0 && !groups_.empty());
  num_bounded_ = std::count_if(groups_.begin(), groups_.end(),
                               [](const AttentionSpan& span) { return span.bounded(); });
  if (!enable_prefix_caching) return;
  const int64_t num_remembered =
      num_bounded_ == num_groups() ? std::min(kRememberedFactor * num_blocks, kMostRemembered) : 0;
  index_ = std::make_unique<PrefixIndex>(num_blocks, num_groups(), block_size, num_remembered);
}

// --- single blocks -----------------------------------------------------------------------------

int32_t BlockManager::take_block() {
  const int32_t block = pool_.take();
  OCTAVO_CHECK(block >= 0);
  if (contains(block)) {
    index_->erase(block);
    --num_cached_;
  }
  return block;
}

void BlockManager::add_reference(int32_t block) {
  if (pool_.reference_count(block) == 0 && contains(block)) --num_cached_;
  pool_.add_reference(block);
}

// Blocks without contents are reused before any that still hold some.
void BlockManager::drop_reference(int32_t block) {
  const bool cached = contains(block);
  pool_.drop_reference(block, cached ? BlockPool::Queue::kBack : BlockPool::Queue::kFront);
  if (cached && pool_.reference_count(block) == 0) ++num_cached_;
}

// --- tables ------------------------------------------------------------------------------------

PrefixMatch BlockManager::match(std::span<const TokenId> tokens, std::string_view extras) const {
  PrefixMatch result;
  if (index_ == nullptr) return result;
  std::vector<int32_t> blocks;
  std::vector<int64_t> cached_from(groups_.size(), 0);  // from this page on there are blocks
  int64_t num_matched = 0;
  PrefixIndex::Key key;
  for (int64_t end = 1; end * block_size_ <= static_cast<int64_t>(tokens.size()); ++end) {
    key.tokens = tokens.subspan((end - 1) * block_size_, block_size_);
    key.extras = end == 1 ? extras : "";
    const int32_t page = index_->find(key);
    if (page < 0) break;
    key.parent = index_->chain_id(page);
    const std::span<const int32_t> known = index_->blocks(page);
    blocks.insert(blocks.end(), known.begin(), known.end());
    bool all_seen_cached = true;
    bool all_kept_cached = true;  // of what groups without a bound always look at
    for (int64_t group = 0; group < num_groups(); ++group) {
      if (known[group] < 0) cached_from[group] = end;
      if (cached_from[group] <= first_seen_page(group, end * block_size_)) continue;
      all_seen_cached = false;
      if (!groups_[group].bounded()) all_kept_cached = false;
    }
    if (!all_kept_cached) break;
    if (!all_seen_cached) continue;
    num_matched = end;
    result.chain_id = key.parent;
  }
  blocks.resize(num_matched * num_groups());
  for (int64_t group = 0; group < num_groups(); ++group) {
    const int64_t num_unseen = first_seen_page(group, num_matched * block_size_);
    for (int64_t page = 0; page < num_unseen; ++page) blocks[page * num_groups() + group] = -1;
  }
  for (const int32_t block : blocks) {
    result.num_used += block >= 0 && pool_.reference_count(block) > 0 ? 1 : 0;
  }
  result.blocks = std::move(blocks);
  return result;
}

void BlockManager::acquire(BlockTable& table, const PrefixMatch& match) {
  OCTAVO_CHECK(table.blocks.empty());
  for (const int32_t block : match.blocks) {
    if (block >= 0) add_reference(block);
  }
  table.blocks = match.blocks;
  table.num_filled_pages = table.num_indexed_pages = num_pages(table);
  table.chain_id = match.chain_id;
}

// How many blocks of a page others refer to as well.
int64_t BlockManager::num_shared(const BlockTable& table, int64_t page) const {
  if (page >= num_pages(table)) return 0;
  const auto first = table.blocks.begin() + page * num_groups();
  return std::count_if(first, first + num_groups(), [&](int32_t block) {
    return block >= 0 && pool_.reference_count(block) > 1;
  });
}

bool BlockManager::grow(BlockTable& table, int64_t begin, Reach reach,
                        std::vector<BlockCopy>& copies) {
  const int64_t size = num_pages(table);
  const int64_t filled = table.num_filled_pages;
  const int64_t new_filled = std::max(filled, pages_for(reach.step_end));
  const bool keeps_all = num_bounded_ < num_groups();
  const int64_t new_size = std::max(size, keeps_all ? pages_for(reach.end) : new_filled);
  const int64_t missing =
      num_bounded_ * (new_filled - filled) + (num_groups() - num_bounded_) * (new_size - size);
  const int64_t page = begin / block_size_;
  const int64_t shared = num_shared(table, page);
  if (missing + shared > num_available_blocks()) return false;
  for (int64_t i = page * num_groups(); shared > 0 && i < (page + 1) * num_groups(); ++i) {
    const int32_t source = table.blocks[i];
    if (source < 0 || pool_.reference_count(source) == 1) continue;
    table.blocks[i] = take_block();
    copies.push_back({source, table.blocks[i]});
    drop_reference(source);
  }
  table.num_filled_pages = new_filled;
  if (missing == 0) return true;
  table.blocks.resize(new_size * num_groups(), -1);
  for (int64_t group = 0; group < num_groups(); ++group) {
    const bool bounded = groups_[group].bounded();
    const int64_t last = bounded ? new_filled : new_size;
    for (int64_t next = bounded ? filled : size; next < last; ++next) {
      table.blocks[next * num_groups() + group] = take_block();
    }
  }
  return true;
}

bool BlockManager::grow(BlockTable& table, int64_t end) {
  std::vector<BlockCopy> copies;
  return grow(table, num_pages(table) * block_size_, {end, end}, copies);
}

BlockTable BlockManager::fork(const BlockTable& table) {
  for (const int32_t block : table.blocks) {
    if (block >= 0) add_reference(block);
  }
  return table;
}

void BlockManager::shrink(BlockTable& table, int64_t num_tokens) {
  const int64_t most = pages_for(num_tokens) * num_groups();
  while (static_cast<int64_t>(table.blocks.size()) > most) {
    const int32_t block = table.blocks.back();
    table.blocks.pop_back();
    if (block >= 0) drop_reference(block);
  }
  table.num_filled_pages = std::min(table.num_filled_pages, num_pages(table));
  if (table.num_indexed_pages <= num_pages(table)) return;
  OCTAVO_CHECK(table.blocks.empty());  // a chain is given back whole
  table = {};
}

void BlockManager::release_unseen(BlockTable& table, int64_t next) {
  for (int64_t group = 0; group < num_groups(); ++group) {
    const int64_t pages = std::min(first_seen_page(group, next), table.num_filled_pages);
    OCTAVO_CHECK(index_ == nullptr || pages <= table.num_indexed_pages);
    for (int64_t page = pages - 1; page >= 0; --page) {
      int32_t& block = table.blocks[page * num_groups() + group];
      if (block < 0) break;
      drop_reference(block);
      block = -1;
    }
  }
}

void BlockManager::index_computed(BlockTable& table, std::span<const TokenId> token_ids,
                                  int64_t num_computed, std::string_view extras) {
  if (index_ == nullptr) return;
  for (int64_t page = table.num_indexed_pages; (page + 1) * block_size_ <= num_computed; ++page) {
    const int32_t known =
        index_->find_or_add({table.chain_id, token_ids.subspan(page * block_size_, block_size_),
                             page == 0 ? extras : ""});
    for (int64_t group = 0; group < num_groups(); ++group) {
      int32_t& own = table.blocks[page * num_groups() + group];
      const int32_t other = index_->blocks(known)[group];
      if (other == own) continue;  // a fork was here first
      if (other < 0) {
        index_->insert(own, known, group);
      } else {
        add_reference(other);
        drop_reference(own);
        own = other;
      }
    }
    table.chain_id = index_->chain_id(known);
    table.num_indexed_pages = page + 1;
  }
}

bool BlockManager::reset_prefix_cache() {
  if (num_used_blocks() > 0) return false;
  if (index_ != nullptr) index_->clear();
  num_cached_ = 0;
  return true;
}

// --- for people and tests ------------------------------------------------------------------------

std::vector<PageTableRow> BlockManager::page_table(const BlockTable& table) const {
  std::vector<PageTableRow> entries;
  for (const int32_t block : table.blocks) {
    const auto index = static_cast<int64_t>(entries.size());
    entries.push_back({index / num_groups(), static_cast<int32_t>(index % num_groups()), block,
                       block < 0 ? 0 : pool_.reference_count(block)});
  }
  return entries;
}

bool BlockManager::check_integrity(std::span<const BlockTable* const> tables) const {
  std::vector<int32_t> references(num_blocks(), 0);
  for (const BlockTable* table : tables) {
    for (const int32_t block : table->blocks) {
      if (block >= num_blocks()) return false;
      if (block >= 0) ++references[block];
    }
  }
  int64_t cached = 0;
  for (int32_t block = 0; block < num_blocks(); ++block) {
    if (references[block] != pool_.reference_count(block)) return false;
    cached += references[block] == 0 && contains(block) ? 1 : 0;
  }
  return cached == num_cached_ && pool_.check_integrity();
}

}  // namespace octavo::engine
