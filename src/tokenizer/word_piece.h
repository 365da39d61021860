// WordPieceModel: BERT's kind of vocabulary: a word becomes the longest token that it starts with,
// then the longest of those that go on, and as a whole the unknown token where one is missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class WordPieceModel {
 public:
  struct Options {
    TokenId unknown = kNoToken;
    // What the spellings of tokens begin with: of those that start a word, and of the others.
    std::string start_prefix;
    std::string continuing_prefix;
    size_t max_word_characters = 100;  // longer words are unknown
  };
  // Looks for the vocabulary's text_tokens, by their pieces. `vocabulary` must outlive the model.
  WordPieceModel(const Vocabulary& vocabulary, Options options);

  // Memory that encode() works in; reuse it from word to word.
  struct Workspace {
    std::string spelling;
  };

  // Appends the ids of `word`, which is not empty.
  void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const;

 private:
  bool is_too_long(std::string_view word) const;
  // The longest token that `text` starts with, among those spelled with `prefix`; `size_bytes`
  // becomes how much of the text it takes. kNoToken where there is none.
  TokenId find_longest(const std::string& prefix, std::string_view text, std::string& spelling,
                       size_t& size_bytes) const;

  Options options_;
  StringIndex index_;
  size_t longest_bytes_ = 0;
};

// What a token reads as in a text: one that starts a word has a space before it, unless `cleanup`
// takes that away again, as it does before marks and the endings of contractions.
std::string word_piece_text(std::string_view text, bool starts_word, bool cleanup);

}  // namespace octavo::tokenizer
