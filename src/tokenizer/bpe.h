// Byte-pair encoding of one piece of text: repeatedly the adjacent pair of the lowest rank, the
// leftmost of equals, becomes one token. O(n log n) in the length of the piece.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// Pairs of tokens that merge: (left, right) -> (rank, result).
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNoRank;
    TokenId result = kNoToken;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  explicit MergeTable(size_t capacity);

  // Does nothing where the pair is there already: the lower rank, which comes first, stays.
  void insert(TokenId left, TokenId right, Merge merge);
  // Of rank kNoRank where the pair does not merge.
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    Merge merge;
  };
  size_t slot_of(TokenId left, TokenId right) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

class BpeModel {
 public:
  // `vocabulary` must outlive the model. `ignore_merges`: see PreTokenizer.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, bool ignore_merges);

  struct Symbol {
    TokenId id = kNoToken;
    uint32_t previous = 0;
    uint32_t next = 0;
    MergeTable::Merge merge;  // with the next symbol
  };
  // Memory that encode() works in; reuse it from piece to piece.
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;
  };

  // Appends the ids of the bytes `piece`. A byte that the vocabulary lacks is left out, as Hugging
  // Face does: an unknown token would be a control token that the text did not ask for.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

  // How many of the 256 bytes have no token.
  int missing_bytes() const;

 private:
  void merge(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

  MergeTable merges_;
  StringIndex whole_pieces_;  // the tokens whose bytes, as a piece, become just that token
  size_t longest_whole_piece_ = 0;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace octavo::tokenizer
