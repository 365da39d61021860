// UnigramModel: of all ways to cut a text into tokens, the one whose scores add up to the most.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class UnigramModel {
 public:
  struct Options {
    TokenId unknown = kNoToken;
    bool byte_fallback = false;     // what is unknown becomes the tokens of its bytes
    bool single_precision = false;  // sums are rounded as SentencePiece's are
  };
  // `tokens`: those that are looked for, by their pieces. `scores` [vocab_size], none of them NaN:
  // log-probabilities. `vocabulary` must outlive the model.
  UnigramModel(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
               std::vector<double> scores, const Options& options);

  struct Step {
    double score;  // of the best way from the start to here
    size_t begin;  // of its last token
    TokenId id;    // that token
  };
  // Memory that encode() works in; reuse it from piece to piece.
  struct Workspace {
    std::vector<Step> steps;  // [position]
    std::vector<TextSpan> path;
  };

  // Appends the ids of `piece`. What the vocabulary has neither bytes nor an unknown token for is
  // left out.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

 private:
  void find_best_path(std::string_view piece, std::vector<Step>& steps) const;
  void append_token(std::string_view text, std::vector<TokenId>& ids) const;

  std::vector<double> scores_;
  ByteTrie trie_;
  StringIndex index_;  // the tokens of the trie
  Options options_;
  double unknown_score_;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace octavo::tokenizer
