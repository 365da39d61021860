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
                           AttentionSpan span)
    : block_size_(block_size), span_(span), pool_(num_blocks) {
  OCTAVO_CHECK(block_size > 0);
  if (!enable_prefix_caching) return;
  const int64_t num_remembered =
      span.bounded() ? std::min(kRememberedFactor * num_blocks, kMostRemembered) : 0;
  index_ = std::make_unique<PrefixIndex>(num_blocks, block_size, num_remembered);
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
  int64_t cached_from = 0;  // from this page on there are blocks
  size_t num_matched = 0;
  PrefixIndex::Key key;
  for (size_t begin = 0; begin + block_size_ <= tokens.size(); begin += block_size_) {
    key.tokens = tokens.subspan(begin, block_size_);
    key.extras = begin == 0 ? extras : "";
    const PrefixIndex::Found found = index_->find(key);
    if (found.chain_id == 0) break;
    key.parent = found.chain_id;
    blocks.push_back(found.block);
    const auto end = static_cast<int64_t>(blocks.size());
    if (found.block < 0) cached_from = end;
    if (cached_from > first_seen_page(end * block_size_)) continue;
    num_matched = blocks.size();
    result.chain_id = found.chain_id;
  }
  blocks.resize(num_matched);
  result.num_unneeded = first_seen_page(static_cast<int64_t>(num_matched) * block_size_);
  std::fill_n(blocks.begin(), result.num_unneeded, -1);
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
  table.num_indexed_blocks = static_cast<int64_t>(match.blocks.size());
  table.chain_id = match.chain_id;
}

bool BlockManager::grow(BlockTable& table, int64_t begin, int64_t end,
                        std::vector<BlockCopy>& copies) {
  const auto size = static_cast<int64_t>(table.blocks.size());
  const int64_t page = begin / block_size_;
  const bool shared = page < size && pool_.reference_count(table.blocks[page]) > 1;
  const int64_t missing = std::max<int64_t>(0, blocks_for(end) - size);
  if (missing + (shared ? 1 : 0) > num_available_blocks()) return false;
  if (shared) {
    const int32_t source = table.blocks[page];
    table.blocks[page] = take_block();
    copies.push_back({source, table.blocks[page]});
    drop_reference(source);
  }
  for (int64_t i = 0; i < missing; ++i) table.blocks.push_back(take_block());
  return true;
}

bool BlockManager::grow(BlockTable& table, int64_t end) {
  std::vector<BlockCopy> copies;
  const auto size = static_cast<int64_t>(table.blocks.size());
  return grow(table, size * block_size_, end, copies);
}

BlockTable BlockManager::fork(const BlockTable& table) {
  for (const int32_t block : table.blocks) {
    if (block >= 0) add_reference(block);
  }
  return table;
}

void BlockManager::shrink(BlockTable& table, int64_t num_tokens) {
  while (static_cast<int64_t>(table.blocks.size()) > blocks_for(num_tokens)) {
    const int32_t block = table.blocks.back();
    table.blocks.pop_back();
    if (block >= 0) drop_reference(block);
  }
  if (table.num_indexed_blocks <= static_cast<int64_t>(table.blocks.size())) return;
  OCTAVO_CHECK(table.blocks.empty());  // a chain is given back whole
  table = {};
}

void BlockManager::release_unseen(BlockTable& table, int64_t next) {
  const int64_t pages = std::min(first_seen_page(next), static_cast<int64_t>(table.blocks.size()));
  OCTAVO_CHECK(index_ == nullptr || pages <= table.num_indexed_blocks);
  for (int64_t page = pages - 1; page >= 0 && table.blocks[page] >= 0; --page) {
    drop_reference(table.blocks[page]);
    table.blocks[page] = -1;
  }
}

void BlockManager::index_computed(BlockTable& table, std::span<const TokenId> token_ids,
                                  int64_t num_computed, std::string_view extras) {
  if (index_ == nullptr) return;
  for (int64_t page = table.num_indexed_blocks; (page + 1) * block_size_ <= num_computed; ++page) {
    int32_t& own = table.blocks[page];
    const PrefixIndex::Key key{table.chain_id, token_ids.subspan(page * block_size_, block_size_),
                               page == 0 ? extras : ""};
    if (!contains(own)) {  // else a fork was here first
      const int32_t known = index_->find(key).block;
      if (known < 0) {
        index_->insert(own, key);
      } else {
        add_reference(known);
        drop_reference(own);
        own = known;
      }
    }
    table.chain_id = index_->chain_id(own);
    table.num_indexed_blocks = page + 1;
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
    entries.push_back({static_cast<int64_t>(entries.size()), block,
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
