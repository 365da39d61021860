#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace octavo::tokenizer {

MergeTable::MergeTable(size_t capacity)
    : slots_(std::bit_ceil(std::max<size_t>(2 * capacity, 2))) {}

size_t MergeTable::slot_of(TokenId left, TokenId right) const {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  const uint64_t hash = key * 0x9E3779B97F4A7C15u;
  const size_t mask = slots_.size() - 1;
  for (size_t i = (hash ^ hash >> 32) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if ((slot.left == left && slot.right == right) || slot.left == kNoToken) return i;
  }
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.left == kNoToken) slot = {left, right, merge};
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(left, right)].merge;
}

BpeModel::BpeModel(const Vocabulary& vocabulary, MergeTable merges, bool ignore_merges)
    : merges_(std::move(merges)), whole_pieces_(vocabulary.bytes, vocabulary.text_tokens.size()) {
  byte_ids_.fill(kNoToken);
  const auto bytes_of = [&](TokenId id) { return vocabulary.bytes[static_cast<size_t>(id)]; };
  for (const TokenId id : vocabulary.text_tokens) {
    const std::string_view bytes = bytes_of(id);
    if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = id;
  }
  Workspace workspace;
  std::vector<TokenId> merged;
  for (const TokenId id : vocabulary.text_tokens) {
    if (!ignore_merges) {
      merged.clear();
      merge(bytes_of(id), workspace, merged);
      if (merged.size() != 1 || merged.front() != id) continue;
    }
    whole_pieces_.insert(id);
    longest_whole_piece_ = std::max(longest_whole_piece_, bytes_of(id).size());
  }
}

int BpeModel::missing_bytes() const {
  return static_cast<int>(std::count(byte_ids_.begin(), byte_ids_.end(), kNoToken));
}

void BpeModel::encode(std::string_view piece, Workspace& workspace,
                      std::vector<TokenId>& ids) const {
  if (piece.size() <= longest_whole_piece_) {
    const TokenId whole = whole_pieces_.find(piece);
    if (whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  merge(piece, workspace, ids);
}

// The symbols form a linked list; a symbol that was merged into the one before keeps kNoRank. A
// queue entry (rank, position) is stale where the pair at that position has another rank by now.
void BpeModel::merge(std::string_view piece, Workspace& workspace,
                     std::vector<TokenId>& ids) const {
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;  // a heap: the least rank first, then the least position
  queue.clear();
  symbols.clear();
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    const auto i = static_cast<uint32_t>(symbols.size());
    if (id != kNoToken) symbols.push_back({id, i - 1, i + 1, {}});
  }
  const auto count = static_cast<uint32_t>(symbols.size());
  // Looks up what symbol `i` makes with the next one; whether it is in the queue now.
  const auto enqueue = [&](uint32_t i) {
    Symbol& symbol = symbols[i];
    symbol.merge = {};
    if (symbol.next < count) symbol.merge = merges_.find(symbol.id, symbols[symbol.next].id);
    if (symbol.merge.rank == MergeTable::kNoRank) return false;
    queue.push_back(static_cast<uint64_t>(symbol.merge.rank) << 32 | i);
    return true;
  };
  const auto push = [&](uint32_t i) {
    if (enqueue(i)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < count; ++i) enqueue(i);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto i = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    Symbol& symbol = symbols[i];
    if (symbol.merge.rank != rank) continue;
    Symbol& absorbed = symbols[symbol.next];
    absorbed.merge = {};
    symbol.id = symbol.merge.result;
    symbol.next = absorbed.next;
    if (symbol.next < count) symbols[symbol.next].previous = i;
    push(i);
    if (i > 0) push(symbol.previous);
  }
  for (uint32_t i = 0; i < count; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace octavo::tokenizer
