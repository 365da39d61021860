#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/byte_tokens.h"

namespace octavo::tokenizer {
namespace {

// Where the word at `begin` ends: before the next space that follows something else.
size_t word_end(std::string_view text, size_t begin) {
  while (text.substr(begin).starts_with(kSpelledSpace)) begin += kSpelledSpace.size();
  return std::min(text.find(kSpelledSpace, begin), text.size());
}

bool is_one_character(std::string_view text) {
  return !text.empty() && utf8_decode(text, 0).size_bytes == text.size();
}

}  // namespace

BpeModel::BpeModel(const Vocabulary& vocabulary, MergeTable merges, const Options& options)
    : merges_(std::move(merges)),
      options_(options),
      whole_pieces_(texts(vocabulary), vocabulary.text_tokens.size()) {
  const bool bytes = options_.alphabet == Alphabet::kBytes;
  const auto text_of = [&](TokenId id) { return texts(vocabulary)[static_cast<size_t>(id)]; };
  ascii_ids_.fill(kNoToken);
  byte_ids_.fill(kNoToken);
  if (!bytes && options_.byte_fallback) byte_ids_ = find_byte_tokens(vocabulary);
  for (const TokenId id : vocabulary.text_tokens) {
    const std::string_view text = text_of(id);
    const auto byte = text.empty() ? 0 : static_cast<unsigned char>(text.front());
    if (bytes && text.size() == 1) byte_ids_[byte] = id;
    if (bytes || !is_one_character(text)) continue;
    whole_pieces_.insert(id);
    if (byte < 0x80) ascii_ids_[byte] = id;
  }
  Workspace workspace;
  std::vector<TokenId> merged;
  for (const TokenId id : vocabulary.text_tokens) {
    const std::string_view text = text_of(id);
    if (!options_.ignore_merges) {
      merged.clear();
      merge(text, workspace, merged);
      if (merged.size() != 1 || merged.front() != id) continue;
    }
    whole_pieces_.insert(id);
    longest_whole_piece_ = std::max(longest_whole_piece_, text.size());
  }
  cuts_words_ = !bytes && !options_.ignore_merges && words_never_merge(vocabulary);
}

const StringTable& BpeModel::texts(const Vocabulary& vocabulary) const {
  return options_.alphabet == Alphabet::kBytes ? vocabulary.bytes : vocabulary.pieces;
}

// Whether no pair has a space on its right side and anything else on its left.
bool BpeModel::words_never_merge(const Vocabulary& vocabulary) const {
  bool never = find_character(kSpelledSpace) != kNoToken;
  merges_.for_each([&](TokenId left, TokenId right) {
    const std::string_view text = vocabulary.pieces[static_cast<size_t>(left)];
    if (vocabulary.pieces[static_cast<size_t>(right)].starts_with(kSpelledSpace)) {
      never = never && word_end(text, 0) == text.size() && text.ends_with(kSpelledSpace);
    }
  });
  return never;
}

int BpeModel::missing_bytes() const {
  return static_cast<int>(std::count(byte_ids_.begin(), byte_ids_.end(), kNoToken));
}

void BpeModel::encode(std::string_view piece, Workspace& workspace,
                      std::vector<TokenId>& ids) const {
  if (!cuts_words_) return encode_part(piece, workspace, ids);
  for (size_t begin = 0; begin < piece.size();) {
    const size_t end = word_end(piece, begin);
    encode_part(piece.substr(begin, end - begin), workspace, ids);
    begin = end;
  }
}

void BpeModel::encode_part(std::string_view part, Workspace& workspace,
                           std::vector<TokenId>& ids) const {
  if (part.size() <= longest_whole_piece_) {
    const TokenId whole = whole_pieces_.find(part);
    if (whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  merge(part, workspace, ids);
}

TokenId BpeModel::find_character(std::string_view character) const {
  const auto byte = static_cast<unsigned char>(character.front());
  return byte < 0x80 ? ascii_ids_[byte] : whole_pieces_.find(character);
}

void BpeModel::begin_symbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  symbols.clear();
  const auto push = [&](TokenId id) {
    const auto i = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, i - 1, i + 1, {}});
  };
  bool unknown = false;  // an unknown token is due
  const auto push_unknown = [&] {
    if (unknown) push(options_.unknown);
    unknown = false;
  };
  const bool bytes = options_.alphabet == Alphabet::kBytes;
  for (size_t pos = 0; pos < piece.size();) {
    const size_t size = bytes ? 1 : utf8_decode(piece, pos).size_bytes;
    const std::string_view character = piece.substr(pos, size);
    pos += size;
    const TokenId id = bytes ? byte_id(character[0]) : find_character(character);
    if (id != kNoToken) {
      push_unknown();
      push(id);
    } else if (!bytes && std::all_of(character.begin(), character.end(),
                                     [&](char c) { return byte_id(c) != kNoToken; })) {
      for (const char c : character) push(byte_id(c));
    } else if (options_.unknown != kNoToken) {
      if (!options_.fuse_unknown) push_unknown();
      unknown = true;
    }
  }
  push_unknown();
}

// The symbols form a linked list; a symbol that was merged into the one before keeps kNoRank. A
// queue entry (rank, position) is stale where the pair at that position has another rank by now.
void BpeModel::merge(std::string_view piece, Workspace& workspace,
                     std::vector<TokenId>& ids) const {
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;  // a heap: the least rank first, then the least position
  queue.clear();
  begin_symbols(piece, symbols);
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
