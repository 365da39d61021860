// SpmModel: the text model of SentencePiece's kind of byte-pair encoding: characters merge by the
// score of what they make, and what has no token becomes one token a byte.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/text_model.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// Fills bytes and text_tokens: spaces are spelled U+2581, bytes <0xHH>; control and user-defined
// tokens are spelled as they are.
void fill_spm_bytes(Vocabulary& vocabulary);

class SpmModel final : public TextModel {
 public:
  // `scores` [vocab_size], none of them NaN. `vocabulary` must outlive the model.
  SpmModel(const Vocabulary& vocabulary, std::vector<float> scores);

  // Every text gets a space put before it where the vocabulary has a space_prefix: the one at the
  // start and each that follows a special token.
  Status encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const override;

 private:
  struct Symbol {
    uint32_t begin;
    uint32_t size;  // 0: merged into the symbol before
    uint32_t previous;
    uint32_t next;
    TokenId id;
  };
  struct Pair;
  class Merger;

  void append_symbol(std::string_view text, const Symbol& symbol, std::vector<TokenId>& ids) const;

  std::vector<float> scores_;
  StringIndex index_;  // text tokens by their bytes
  size_t longest_ = 0;
  std::array<TokenId, 256> byte_ids_;
  bool space_prefix_;
};

}  // namespace octavo::tokenizer
