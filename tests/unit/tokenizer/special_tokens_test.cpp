#include "tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace octavo::tokenizer {
namespace {

Vocabulary make_vocabulary(const std::vector<std::pair<std::string, TokenKind>>& tokens) {
  Vocabulary vocabulary;
  for (const auto& [text, kind] : tokens) {
    vocabulary.kinds.push_back(kind);
    vocabulary.pieces.add(text);
    vocabulary.bytes.add(text);
  }
  return vocabulary;
}

struct Found {
  size_t begin;
  TokenId id;
  bool operator==(const Found&) const = default;
};

std::vector<Found> found_in(const Vocabulary& vocabulary, std::string_view text,
                            std::vector<TextSpan> plain) {
  std::vector<Found> found;
  for (const auto& match : SpecialTokens(vocabulary).find_all(text, plain)) {
    EXPECT_EQ(text.substr(match.span.begin, match.span.end - match.span.begin),
              vocabulary.bytes[static_cast<size_t>(match.id)]);
    found.push_back({match.span.begin, match.id});
  }
  return found;
}

// By the definition, trying every token at every place.
std::vector<Found> naive(const Vocabulary& vocabulary, std::string_view text,
                         const std::vector<TextSpan>& plain) {
  std::vector<Found> found;
  for (size_t pos = 0; pos < text.size();) {
    TokenId best = kNoToken;
    size_t best_size = 0;
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
      const std::string_view token = vocabulary.bytes[static_cast<size_t>(id)];
      if (token.empty() || !text.substr(pos).starts_with(token)) continue;
      if (!vocabulary.is_control(id) && !vocabulary.is_user_defined(id)) continue;
      bool touches = false;
      for (const TextSpan& span : plain) {
        touches |= std::max(span.begin, pos) < std::min(span.end, pos + token.size());
      }
      if (touches && vocabulary.is_control(id)) continue;
      if (token.size() > best_size) {
        best = id;
        best_size = token.size();
      }
    }
    if (best != kNoToken) found.push_back({pos, best});
    pos += best == kNoToken ? 1 : best_size;
  }
  return found;
}

TEST(SpecialTokens, AgreesWithTheDefinition) {
  Rng rng(3);
  size_t total = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto random_text = [&](uint64_t most) {
      std::string text;
      for (uint64_t n = rng.next_u64() % (most + 1); n > 0; --n) {
        text += static_cast<char>("ab\xFF"[rng.next_u64() % 3]);
      }
      return text;
    };
    std::vector<std::pair<std::string, TokenKind>> tokens;
    while (tokens.size() < 5) {
      const std::string text = random_text(4);
      const bool known = std::any_of(tokens.begin(), tokens.end(),
                                     [&](const auto& token) { return token.first == text; });
      const TokenKind kinds[] = {TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kNormal};
      if (!known) tokens.emplace_back(text, kinds[rng.next_u64() % 3]);
    }
    const Vocabulary vocabulary = make_vocabulary(tokens);
    const std::string text = random_text(30);
    std::vector<TextSpan> plain;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos + rng.next_u64() % 8;
      const size_t end = begin + rng.next_u64() % 4;  // some are empty
      if (end <= text.size()) plain.push_back({begin, end});
      pos = end + 1;
    }
    const std::vector<Found> expected = naive(vocabulary, text, plain);
    ASSERT_EQ(found_in(vocabulary, text, plain), expected) << text;
    total += expected.size();
  }
  EXPECT_GT(total, 10000u);
}

TEST(SpecialTokens, LongestWinsAndTheLastOfEquals) {
  const Vocabulary vocabulary = make_vocabulary({{"<a>", TokenKind::kControl},
                                                 {"<a>b", TokenKind::kControl},
                                                 {"<a>", TokenKind::kControl},
                                                 {"", TokenKind::kControl}});
  EXPECT_EQ(found_in(vocabulary, "x<a>b<a>", {}), (std::vector<Found>{{1, 1}, {5, 2}}));
}

TEST(SpecialTokens, ATokenThatReachesIntoAPlainSpanIsNone) {
  const Vocabulary vocabulary =
      make_vocabulary({{"<|end|>", TokenKind::kControl}, {"<|", TokenKind::kUserDefined}});
  EXPECT_EQ(found_in(vocabulary, "<|end|>", {}), (std::vector<Found>{{0, 0}}));
  EXPECT_EQ(found_in(vocabulary, "<|end|>", {{6, 7}}), (std::vector<Found>{{0, 1}}));
  EXPECT_EQ(found_in(vocabulary, "<|end|>", {{0, 1}}), (std::vector<Found>{{0, 1}}));
  EXPECT_EQ(found_in(vocabulary, "<|end|>", {{3, 3}}), (std::vector<Found>{{0, 0}}));
}

TEST(SpecialTokens, NoneInAnEmptyVocabulary) {
  EXPECT_TRUE(found_in(make_vocabulary({{"a", TokenKind::kNormal}}), "aaa", {}).empty());
}

}  // namespace
}  // namespace octavo::tokenizer
