// What vocabularies for tests have in common: tokens that are texts, of which id 0 ends an answer,
// and no chat template.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::testing {

class SpelledTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> encode_prompt(const RenderedPrompt& prompt) const override {
    return encode(prompt.text, {});
  }
  std::string token_piece(TokenId id) const override { return token_bytes(id, true); }
  Result<std::string> decode(std::span<const TokenId> ids, bool show_special) const override {
    std::string text;
    for (const TokenId id : ids) text += token_bytes(id, show_special);
    return text;
  }
  TokenId bos_id() const override { return -1; }
  TokenId eos_id() const override { return 0; }
  std::span<const TokenId> stop_ids() const override { return stop_ids_; }
  bool has_chat_template() const override { return false; }
  Result<RenderedPrompt> render(std::string_view, const RenderOptions&) const override {
    return unsupported("no chat template");
  }

 private:
  std::array<TokenId, 1> stop_ids_{0};
};

}  // namespace octavo::testing
