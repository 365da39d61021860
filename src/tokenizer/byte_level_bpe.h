// ByteLevelBpe: the text model of GPT-2's kind: normalise, cut into pieces, merge bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_model.h"
#include "tokenizer/unicode.h"

namespace octavo::tokenizer {

class ByteLevelBpe final : public TextModel {
 public:
  // Both `pre_tokenizer` and the vocabulary of `bpe` must outlive it.
  ByteLevelBpe(const PreTokenizer& pre_tokenizer, BpeModel bpe)
      : pre_tokenizer_(pre_tokenizer), bpe_(std::move(bpe)) {}

  Status encode(std::string_view text, Before, std::vector<TokenId>& ids) const override {
    std::string normalised;
    if (pre_tokenizer_.nfc) text = to_nfc(text, normalised);
    BpeModel::Workspace workspace;
    pre_tokenizer_.split(text, [&](std::string_view piece) { bpe_.encode(piece, workspace, ids); });
    return {};
  }

 private:
  const PreTokenizer& pre_tokenizer_;
  BpeModel bpe_;
};

}  // namespace octavo::tokenizer
