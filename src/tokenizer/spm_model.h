// SpmModel: the model of SentencePiece's kind of byte-pair encoding: characters merge by the
// score of what they make, and what has no token becomes one token a byte.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// Fills bytes and text_tokens: spaces are spelled U+2581, bytes <0xHH>; control and user-defined
// tokens are spelled as they are.
void fill_spm_bytes(Vocabulary& vocabulary);

class SpmModel {
 public:
  // `scores` [vocab_size], none of them NaN. `unknown`: what a run of characters without tokens, of
  // their own or of their bytes, becomes; kNoToken: nothing. `vocabulary` must outlive the model.
  SpmModel(const Vocabulary& vocabulary, std::vector<float> scores, TokenId unknown);

  struct Symbol {
    uint32_t begin;
    uint32_t size;  // 0: merged into the symbol before
    uint32_t previous;
    uint32_t next;
    TokenId id;
  };
  // Two adjacent symbols that make a token.
  struct Pair {
    float score;
    uint32_t left;  // a symbol, and so a position
    uint32_t size;  // of both in bytes: another by now where one of them has merged since
    TokenId id;

    // The better pair is the greater.
    bool operator<(const Pair& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  // Memory that encode() works in; reuse it from text to text.
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<Pair> queue;
  };

  // Appends the ids of `text`, in which spaces are spelled U+2581 or as they are.
  void encode(std::string_view text, Workspace& workspace, std::vector<TokenId>& ids) const;

 private:
  class Merger;

  std::vector<float> scores_;
  StringIndex index_;  // text tokens by their bytes
  size_t longest_ = 0;
  std::array<TokenId, 256> byte_ids_;
  TokenId unknown_;
};

}  // namespace octavo::tokenizer
