// Byte-pair encoding of one piece of text: repeatedly the adjacent pair of the lowest rank, the
// leftmost of equals, becomes one token. O(n log n) in the length of the piece.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class BpeModel {
 public:
  // What a piece starts out as: its bytes, each with the token that stands for it, or its
  // characters, each with the token that is spelled so.
  enum class Alphabet : uint8_t { kBytes, kCharacters };
  struct Options {
    Alphabet alphabet = Alphabet::kBytes;
    bool ignore_merges = false;  // a piece that is a token becomes it, whatever the merges say
    bool byte_fallback = false;  // what has no token becomes the tokens of its bytes
    TokenId unknown = kNoToken;  // or this one, where there are no such tokens
    bool fuse_unknown = false;   // one for a run of such characters
  };
  // `vocabulary` must outlive the model.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, const Options& options);

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

  // Appends the ids of `piece`. What has no token, by the options, is left out, as Hugging Face
  // does: an unknown token would be a control token that the text did not ask for.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

  // How many of the 256 bytes have no token.
  int missing_bytes() const;

 private:
  // What pieces are compared with.
  const StringTable& texts(const Vocabulary& vocabulary) const;
  void encode_part(std::string_view part, Workspace& workspace, std::vector<TokenId>& ids) const;
  TokenId find_character(std::string_view character) const;
  void begin_symbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;
  bool words_never_merge(const Vocabulary& vocabulary) const;

  MergeTable merges_;
  Options options_;
  StringIndex whole_pieces_;  // the tokens whose text, as a piece, becomes just that token
  size_t longest_whole_piece_ = 0;
  std::array<TokenId, 256> byte_ids_;   // [byte]: what stands for it, or falls back on it
  std::array<TokenId, 128> ascii_ids_;  // [character], of Alphabet::kCharacters
  bool cuts_words_ = false;             // no token reaches over the start of a word
};

}  // namespace octavo::tokenizer
