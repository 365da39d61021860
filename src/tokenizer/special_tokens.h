// SpecialTokens: finds control and user-defined tokens in raw text, before anything else is done to
// it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class SpecialTokens {
 public:
  struct Match {
    TextSpan span;
    TokenId id = kNoToken;
  };

  struct Entry {
    std::string text;
    TokenId id = kNoToken;
  };

  // All that are looked for in raw text. `vocabulary` must outlive it.
  explicit SpecialTokens(const Vocabulary& vocabulary);
  // These, by these texts; of equal texts the last. Empty texts are ignored.
  SpecialTokens(const Vocabulary& vocabulary, std::vector<Entry> entries);

  bool empty() const { return entries_.empty(); }

  // Every match from left to right, of those that start at one place the longest. User-defined
  // tokens count everywhere; control tokens only where they touch none of the `plain` spans
  // (ascending, disjoint). A match includes the spaces that its token takes with it. From each
  // position it looks at no more bytes than the longest token has, and at one where no token
  // begins with it.
  std::vector<Match> find_all(std::string_view text, std::span<const TextSpan> plain) const;

 private:
  // The longest match at `pos`; of control tokens only those that end by `control_end`. kNoToken
  // where there is none.
  Match match_at(std::string_view text, size_t pos, size_t control_end) const;

  const Vocabulary& vocabulary_;
  std::vector<Entry> entries_;            // by text; all different and not empty
  std::array<bool, 256> starts_token_{};  // by first byte
};

}  // namespace octavo::tokenizer
