// ModelTokenizer: a model's tokenizer, put together from a vocabulary, a model of plain text and a
// chat template.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tokenizer/chat_template.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class ModelTokenizer final : public Tokenizer {
 public:
  // `text_model` may refer to `vocabulary`. `chat_template` is the error that render() gives where
  // there is none.
  ModelTokenizer(std::unique_ptr<const Vocabulary> vocabulary,
                 std::unique_ptr<const TextModel> text_model, Result<ChatTemplate> chat_template);

  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_->size()); }
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options) const override;
  Result<std::vector<TokenId>> encode_prompt(const RenderedPrompt& prompt) const override;
  std::string token_bytes(TokenId id, bool show_special) const override;
  std::string token_piece(TokenId id) const override;
  bool is_control(TokenId id) const override;
  Result<std::string> decode(std::span<const TokenId> ids, bool show_special) const override;
  bool has_space_prefix() const override { return vocabulary_->space_prefix; }
  TokenId bos_id() const override { return vocabulary_->bos; }
  TokenId eos_id() const override { return vocabulary_->eos; }
  std::span<const TokenId> stop_ids() const override { return vocabulary_->stop_ids; }
  bool has_chat_template() const override { return chat_template_.ok(); }
  Result<RenderedPrompt> render(std::string_view messages_json,
                                const RenderOptions& options) const override;

 private:
  // Appends the ids of `text`; control tokens are recognised outside the `plain` spans only.
  Status append_ids(std::string_view text, std::span<const TextSpan> plain,
                    std::vector<TokenId>& ids) const;

  // The template of RenderOptions::chat_template, parsed.
  Result<std::shared_ptr<const ChatTemplate>> given_template(const std::string& text) const;

  std::unique_ptr<const Vocabulary> vocabulary_;
  SpecialTokens special_tokens_;
  std::unique_ptr<const TextModel> text_model_;
  Result<ChatTemplate> chat_template_;
  mutable std::mutex mutex_;  // guards what follows: templates that callers gave, by their text
  mutable std::map<std::string, std::shared_ptr<const ChatTemplate>> given_templates_;
};

}  // namespace octavo::tokenizer
