// HfTextModel: the text model of a tokenizer.json: normalise, look for added tokens again, cut into
// pieces, and turn each piece into ids.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/hf_model.h"
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
              HfModel model)
      : normalizer_(std::move(normalizer)),
        normalized_tokens_(std::move(normalized_tokens)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        model_(std::move(model)) {}

  Status encode(std::string_view text, Before before, std::vector<TokenId>& ids) const override {
    return std::visit(
        [&](const auto& model) {
          return encode_with(model, text, before == Before::kNothing, ids);
        },
        model_);
  }

 private:
  template <typename Model>
  Status encode_with(const Model& model, std::string_view text, bool at_start,
                     std::vector<TokenId>& ids) const {
    std::string normalised;
    if (!normalizer_.empty()) {
      normalised = text;
      OCTAVO_TRY(normalizer_.apply(normalised));
      text = normalised;
    }
    typename Model::Workspace workspace;
    const auto encode_plain = [&](size_t begin, size_t end) {
      return pre_tokenizer_.split(
          text.substr(begin, end - begin), at_start && begin == 0,
          [&](std::string_view piece) { model.encode(piece, workspace, ids); });
    };
    if (normalized_tokens_.empty()) return encode_plain(0, text.size());
    size_t done = 0;
    for (const SpecialTokens::Match& match : normalized_tokens_.find_all(text, {})) {
      OCTAVO_TRY(encode_plain(done, match.span.begin));
      ids.push_back(match.id);
      done = match.span.end;
    }
    return encode_plain(done, text.size());
  }

  Normalizer normalizer_;
  SpecialTokens normalized_tokens_;
  HfPreTokenizer pre_tokenizer_;
  HfModel model_;
};

}  // namespace octavo::tokenizer
