// SpmTextModel: the text model of SentencePiece's vocabularies: normalise, spell spaces U+2581, and
// cut into tokens by merging or by scores.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/charsmap.h"
#include "tokenizer/spm_model.h"
#include "tokenizer/text_model.h"
#include "tokenizer/unigram.h"

namespace octavo::tokenizer {

// What a model file says about text before it is cut.
struct SpmNormalizer {
  enum class Prefix : uint8_t {
    kNever,
    kAlways,       // before every text: at the start, and behind each special token
    kNotAfterText  // not behind tokens that are text
  };

  std::optional<CharsMap> map;
  Prefix prefix = Prefix::kAlways;        // where a space is put before a text
  bool prefix_is_suffix = false;          // it is put behind the text instead
  bool remove_extra_whitespaces = false;  // at the ends, and all but one elsewhere

  // Bytes that are not UTF-8 stay as they are. The maps in use make at most 13 times the text,
  // the worst that loads 800 times.
  std::string apply(std::string_view text, Before before) const;
};

class SpmTextModel final : public TextModel {
 public:
  using Model = std::variant<SpmModel, UnigramModel>;
  SpmTextModel(SpmNormalizer normalizer, Model model)
      : normalizer_(std::move(normalizer)), model_(std::move(model)) {}

  Status encode(std::string_view text, Before before, std::vector<TokenId>& ids) const override {
    const std::string normalised = normalizer_.apply(text, before);
    std::visit(
        [&](const auto& model) {
          typename std::remove_cvref_t<decltype(model)>::Workspace workspace;
          model.encode(normalised, workspace, ids);
        },
        model_);
    return {};
  }

 private:
  SpmNormalizer normalizer_;
  Model model_;
};

// Unigram as SentencePiece has it, of a vocabulary that fill_spm_bytes() has filled: sums in single
// precision, no control, byte or unused tokens.
UnigramModel make_spm_unigram(const Vocabulary& vocabulary, const std::vector<float>& scores);

}  // namespace octavo::tokenizer
