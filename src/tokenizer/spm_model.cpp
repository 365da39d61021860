#include "tokenizer/spm_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/byte_tokens.h"

namespace octavo::tokenizer {
namespace {

std::string with_plain_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t found = std::min(text.find(kSpelledSpace, pos), text.size());
    out += text.substr(pos, found - pos);
    if (found < text.size()) out += ' ';
    pos = found + kSpelledSpace.size();
  }
  return out;
}

}  // namespace

void fill_spm_bytes(Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view piece = vocabulary.pieces[i];
    if (vocabulary.is_control(id)) {
      vocabulary.bytes.add(piece);
      continue;
    }
    const auto byte = vocabulary.kinds[i] == TokenKind::kByte ? byte_of_piece(piece) : std::nullopt;
    const std::string bytes = byte ? std::string(1, *byte) : with_plain_spaces(piece);
    vocabulary.bytes.add(bytes);
    if (!bytes.empty()) vocabulary.text_tokens.push_back(id);
  }
}

SpmModel::SpmModel(const Vocabulary& vocabulary, std::vector<float> scores, TokenId unknown)
    : scores_(std::move(scores)),
      index_(vocabulary.bytes, vocabulary.text_tokens.size()),
      unknown_(unknown) {
  byte_ids_.fill(kNoToken);
  for (const TokenId id : vocabulary.text_tokens) {
    const std::string_view bytes = vocabulary.bytes[static_cast<size_t>(id)];
    if (vocabulary.kinds[static_cast<size_t>(id)] == TokenKind::kByte) {
      if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = id;
    } else {
      index_.insert(id);
      longest_ = std::max(longest_, bytes.size());
    }
  }
}

class SpmModel::Merger {
 public:
  Merger(const SpmModel& model, std::string_view text, Workspace& workspace)
      : model_(model), text_(text), symbols_(workspace.symbols), queue_(workspace.queue) {
    symbols_.clear();
    queue_.clear();
    for (size_t pos = 0; pos < text.size();) {
      const size_t size = utf8_decode(text, pos).size_bytes;
      const auto i = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(size), i - 1, i + 1,
                          model.index_.find(text.substr(pos, size))});
      pos += size;
    }
  }

  // The symbols that are left, from left to right.
  template <typename Visit>
  void run(Visit visit) {
    for (uint32_t i = 0; i < symbols_.size(); ++i) find_pair(i);
    std::make_heap(queue_.begin(), queue_.end());
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      const Pair pair = queue_.back();
      queue_.pop_back();
      merge(pair);
    }
    for (size_t i = 0; i < symbols_.size(); i = symbols_[i].next) visit(symbols_[i]);
  }

 private:
  // Queues what symbol `i` makes with the next one.
  bool find_pair(uint32_t i) {
    const uint32_t next = symbols_[i].next;
    if (next >= symbols_.size()) return false;
    const uint32_t size = symbols_[i].size + symbols_[next].size;
    if (size > model_.longest_) return false;
    const TokenId id = model_.index_.find(text_.substr(symbols_[i].begin, size));
    if (id == kNoToken) return false;
    queue_.push_back({model_.scores_[static_cast<size_t>(id)], i, size, id});
    return true;
  }

  void push_pair(uint32_t i) {
    if (find_pair(i)) std::push_heap(queue_.begin(), queue_.end());
  }

  void merge(const Pair& pair) {
    Symbol& left = symbols_[pair.left];
    if (left.size == 0 || left.next >= symbols_.size()) return;
    Symbol& right = symbols_[left.next];
    if (left.size + right.size != pair.size) return;
    left.size = pair.size;
    left.id = pair.id;
    left.next = right.next;
    right.size = 0;
    if (left.next < symbols_.size()) symbols_[left.next].previous = pair.left;
    push_pair(pair.left);
    if (pair.left > 0) push_pair(left.previous);
  }

  const SpmModel& model_;
  std::string_view text_;
  std::vector<Symbol>& symbols_;
  std::vector<Pair>& queue_;
};

void SpmModel::encode(std::string_view text, Workspace& workspace,
                      std::vector<TokenId>& ids) const {
  const std::string spaced = with_plain_spaces(text);
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  bool after_unknown = false;
  Merger(*this, spaced, workspace).run([&](const Symbol& symbol) {
    if (symbol.id != kNoToken) {
      ids.push_back(symbol.id);
      after_unknown = false;
      return;
    }
    const std::string_view bytes = std::string_view(spaced).substr(symbol.begin, symbol.size);
    const bool has_bytes = std::all_of(bytes.begin(), bytes.end(),
                                       [&](char byte) { return byte_id(byte) != kNoToken; });
    if (unknown_ != kNoToken && !has_bytes) {
      if (!after_unknown) ids.push_back(unknown_);
      after_unknown = true;
      return;
    }
    for (const char byte : bytes) {
      if (byte_id(byte) != kNoToken) ids.push_back(byte_id(byte));
    }
    after_unknown = false;
  });
}

}  // namespace octavo::tokenizer
