// A vocabulary for models without one: short texts that stop strings easily span, and characters
// that are split over tokens. Id 0 ends an answer.
#pragma once

#include <array>
#include <string>

#include "octavo/tokenizer.h"

namespace octavo::testing {

class LetterTokenizer : public Tokenizer {
 public:
  explicit LetterTokenizer(int64_t vocab_size) : vocab_size_(vocab_size) {}

  int64_t vocab_size() const override { return vocab_size_; }
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(1 + static_cast<unsigned char>(c) % 3);
    return ids;
  }
  Result<std::vector<TokenId>> encode_prompt(const RenderedPrompt& prompt) const override {
    return encode(prompt.text, {});
  }
  std::string token_bytes(TokenId id, bool show_special) const override {
    if (id == 0) return show_special ? "<end>" : "";
    static const std::array<std::string, 8> kTexts{"a",  "b",    "c",    "ab",
                                                   "ca", "\xC3", "\xA9", "\xE2\x82"};
    return kTexts[static_cast<size_t>(id - 1) % kTexts.size()];
  }
  std::string token_piece(TokenId id) const override { return token_bytes(id, true); }
  bool is_control(TokenId id) const override { return id == 0; }
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
  int64_t vocab_size_;
  std::array<TokenId, 1> stop_ids_{0};
};

}  // namespace octavo::testing
