// A vocabulary for models without one: short texts that stop strings easily span, and characters
// that are split over tokens. Id 0 ends an answer.
#pragma once

#include <array>
#include <string>

#include "support/spelled_tokenizer.h"

namespace octavo::testing {

class LetterTokenizer : public SpelledTokenizer {
 public:
  explicit LetterTokenizer(int64_t vocab_size) : vocab_size_(vocab_size) {}

  int64_t vocab_size() const override { return vocab_size_; }
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(1 + static_cast<unsigned char>(c) % 3);
    return ids;
  }
  std::string token_bytes(TokenId id, bool show_special) const override {
    if (id == 0) return show_special ? "<end>" : "";
    static const std::array<std::string, 8> kTexts{"a",  "b",    "c",    "ab",
                                                   "ca", "\xC3", "\xA9", "\xE2\x82"};
    return kTexts[static_cast<size_t>(id - 1) % kTexts.size()];
  }
  bool is_control(TokenId id) const override { return id == 0; }

 private:
  int64_t vocab_size_;
};

}  // namespace octavo::testing
