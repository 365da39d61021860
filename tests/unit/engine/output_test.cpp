// Text and stop strings of an answer, token by token.
#include "engine/output.h"

#include <gtest/gtest.h>

#include "octavo/model.h"
#include "support/piece_tokenizer.h"

namespace octavo::engine {
namespace {

const Tokenizer& gpt2() {
  static const auto tokenizer =
      load_tokenizer(OCTAVO_TEST_DATA "/vocabs/ggml-vocab-gpt-2.gguf").value();
  return *tokenizer;
}

struct Shown {
  std::string text;
  const char* stop;  // "" where none was found
};

// One token for each character of `text`.
Shown show(const std::string& text, std::vector<std::string> stop, int64_t min_tokens) {
  Request request;
  request.sampling.stop = std::move(stop);
  request.sampling.min_tokens = min_tokens;
  OutputStream output(&gpt2(), request);
  Shown shown{"", ""};
  for (const char c : text) {
    const auto ids = gpt2().encode(std::string(1, c), {}).value();
    EXPECT_EQ(ids.size(), 1u);
    shown.text += output.push(ids[0]);
    if (output.stop_hit() == nullptr) continue;
    static std::string hit;
    hit = *output.stop_hit();
    shown.stop = hit.c_str();
    return shown;
  }
  shown.text += output.finish();
  return shown;
}

void expect_shown(const Shown& actual, const std::string& text, const std::string& stop) {
  EXPECT_EQ(actual.text, text);
  EXPECT_EQ(actual.stop, stop);
}

class SpaceTokenizer : public testing::PieceTokenizer {
 public:
  bool has_space_prefix() const override { return true; }
};

// The grammar has matched it.
TEST(OutputStream, KeepsTheFirstSpaceOfStructuredAnswers) {
  const SpaceTokenizer tokenizer;
  Request request;
  const auto text_of = [&] {
    OutputStream output(&tokenizer, request);
    std::string text;
    for (const char c : {' ', '!'}) {
      text += output.push(testing::PieceTokenizer::kFirstByte + static_cast<TokenId>(c));
    }
    return text + output.finish();
  };
  EXPECT_EQ(text_of(), "!");
  request.sampling.structured_outputs.emplace().regex = " !";
  EXPECT_EQ(text_of(), " !");
}

// As vLLM has it: a stop string ends the answer where its last character belongs to a token after
// the first min_tokens, wherever it began.
TEST(OutputStream, AStopStringMayBeginWithinMinTokens) {
  expect_shown(show("abcdef", {"bcd"}, 0), "a", "bcd");
  expect_shown(show("abcdef", {"bcd"}, 2), "a", "bcd");
  expect_shown(show("abcdef", {"bcd"}, 3), "a", "bcd");
  expect_shown(show("abcdef", {"bcd"}, 4), "abcdef", "");
  expect_shown(show("abcdef", {"abcdef"}, 5), "", "abcdef");
}

TEST(OutputStream, OneThatEndsWithinMinTokensIsPassedOver) {
  expect_shown(show("abcabcabc", {"abc"}, 3), "abc", "abc");
  expect_shown(show("abcabcabc", {"abc"}, 6), "abcabc", "abc");
  expect_shown(show("ababab", {"abab"}, 4), "ab", "abab");  // the two overlap
  expect_shown(show("aaaa", {"aa"}, 2), "a", "aa");
  expect_shown(show("abcd", {"abc", "cd"}, 3), "ab", "cd");
  expect_shown(show("abc", {"abc"}, 10), "abc", "");
}

}  // namespace
}  // namespace octavo::engine
