// A vocabulary for tests of grammars: every byte, and pieces that end several things at once or
// part of a character. Id 0 ends an answer, id 1 is a control token that spells text.
#pragma once

#include <string>
#include <vector>

#include "support/spelled_tokenizer.h"

namespace octavo::testing {

class PieceTokenizer : public SpelledTokenizer {
 public:
  static constexpr TokenId kFirstByte = 2;

  PieceTokenizer() {
    pieces_ = {"", ""};
    for (int byte = 0; byte < 256; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"",
                             "\":",
                             "\": ",
                             "\",",
                             "\", \"",
                             "\"}",
                             "}}",
                             "}]}",
                             "}]}]}",
                             "\"}]}]}]}",
                             "[[",
                             "]]",
                             "]]]]]]",
                             "],[",
                             "true",
                             "null",
                             "fal",
                             "12",
                             "0.5",
                             "-1",
                             "1e",
                             "  ",
                             "\n  ",
                             "abc",
                             "ab",
                             "aaaaaaaa",
                             "\\u00",
                             "\\\"",
                             "name",
                             "\"name\"",
                             "value",
                             " a",
                             "\xC3",
                             "\xA9\xC3",
                             "\xE2\x82",
                             "\xAC\"",
                             "\xF0\x9F\x98\x80",
                             "2024-",
                             "::=",
                             ", ",
                             ",\""}) {
      pieces_.emplace_back(text);
    }
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  // Byte by byte.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(kFirstByte + static_cast<unsigned char>(c));
    return ids;
  }
  std::string token_bytes(TokenId id, bool show_special) const override {
    if (is_control(id)) return show_special ? "true" : "";
    return pieces_[static_cast<size_t>(id)];
  }
  bool is_control(TokenId id) const override { return id < kFirstByte; }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace octavo::testing
