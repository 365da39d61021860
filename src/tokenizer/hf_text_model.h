// HfTextModel: the text model of a byte-level tokenizer.json: normalise, look for added tokens
// again, cut into pieces, merge bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/bpe.h"
#include "tokenizer/hf_pre_tokenizer.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"

namespace octavo::tokenizer {

class HfTextModel final : public TextModel {
 public:
  // `normalized_tokens`: those that are looked for in normalised text. The vocabulary must outlive
  // the model.
  HfTextModel(Normalizer normalizer, SpecialTokens normalized_tokens, HfPreTokenizer pre_tokenizer,
              BpeModel bpe)
      : normalizer_(std::move(normalizer)),
        normalized_tokens_(std::move(normalized_tokens)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        bpe_(std::move(bpe)) {}

  Status encode(std::string_view text, std::vector<TokenId>& ids) const override {
    std::string normalised;
    if (!normalizer_.empty()) {
      normalised = text;
      OCTAVO_TRY(normalizer_.apply(normalised));
      text = normalised;
    }
    BpeModel::Workspace workspace;
    const auto encode_plain = [&](std::string_view plain) {
      return pre_tokenizer_.split(
          plain, [&](std::string_view piece) { bpe_.encode(piece, workspace, ids); });
    };
    if (normalized_tokens_.empty()) return encode_plain(text);
    size_t done = 0;
    for (const SpecialTokens::Match& match : normalized_tokens_.find_all(text, {})) {
      OCTAVO_TRY(encode_plain(text.substr(done, match.span.begin - done)));
      ids.push_back(match.id);
      done = match.span.end;
    }
    return encode_plain(text.substr(done));
  }

 private:
  Normalizer normalizer_;
  SpecialTokens normalized_tokens_;
  HfPreTokenizer pre_tokenizer_;
  BpeModel bpe_;
};

}  // namespace octavo::tokenizer
