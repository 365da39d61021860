#include "tokenizer/pre_tokenizer.h"

#include "base/rng.h"
#include "test_data.h"

namespace octavo::tokenizer {
namespace {

constexpr const char* kDifferent[] = {"gpt-2", "smollm",         "llama-bpe",
                                      "qwen2", "deepseek-coder", "default"};

std::vector<std::string> pieces_of(const char* name, std::string_view text) {
  std::vector<std::string> pieces;
  find_pre_tokenizer(name)->split(text, [&](std::string_view p) { pieces.emplace_back(p); });
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, CutsEveryGoldenTextAsTheOriginalPatterns) {
  const std::vector<std::string> texts = read_golden_texts();
  for (const char* name : kDifferent) {
    const JsonArray golden = read_test_array(std::string("tokenizer/splits_") + name + ".json");
    ASSERT_EQ(golden.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<size_t> sizes;
      for (const std::string& piece : pieces_of(name, texts[i])) sizes.push_back(piece.size());
      ASSERT_EQ(sizes, to_integers<size_t>(golden.at(i))) << name << ": " << texts[i];
    }
  }
}

TEST(PreTokenizer, WhatReadersTripOver) {
  EXPECT_EQ(pieces_of("gpt-2", "I'Ve  don't"), (Pieces{"I", "'", "Ve", " ", " don", "'t"}));
  EXPECT_EQ(pieces_of("llama-bpe", "I'Ve  don't"), (Pieces{"I", "'Ve", " ", " don", "'t"}));
  EXPECT_EQ(pieces_of("llama-bpe", "12345 \n\n x"), (Pieces{"123", "45", " \n\n", " x"}));
  EXPECT_EQ(pieces_of("qwen2", "12\tx"), (Pieces{"1", "2", "\tx"}));
  EXPECT_EQ(pieces_of("smollm", "a  12"), (Pieces{"a", "  ", "1", "2"}));
  EXPECT_EQ(pieces_of("gpt-2", "a  12"), (Pieces{"a", " ", " 12"}));
}

TEST(PreTokenizer, PiecesOfAnyBytesAreTheText) {
  Rng rng(1);
  constexpr std::string_view kBytes =
      "a1 \n\r'.\x80\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\xFF\xCC\x81sS$";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t n = rng.next_u64() % 24; n > 0; --n) {
      text += kBytes[rng.next_u64() % kBytes.size()];
    }
    for (const char* name : kDifferent) {
      std::string joined;
      for (const std::string& piece : pieces_of(name, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text) << name;
    }
  }
}

TEST(PreTokenizer, NamesAndFlags) {
  for (const char* name : {"llama-bpe", "llama3", "llama-v3"}) {
    ASSERT_NE(find_pre_tokenizer(name), nullptr) << name;
    EXPECT_TRUE(find_pre_tokenizer(name)->ignore_merges);
    EXPECT_TRUE(find_pre_tokenizer(name)->add_bos);
  }
  EXPECT_FALSE(find_pre_tokenizer("qwen2")->ignore_merges);
  EXPECT_TRUE(find_pre_tokenizer("qwen2")->nfc);
  EXPECT_FALSE(find_pre_tokenizer("smollm")->nfc);
  EXPECT_EQ(pieces_of("starcoder", "a  12"), pieces_of("smollm", "a  12"));
  EXPECT_EQ(find_pre_tokenizer("no-such"), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
}

TEST(PreTokenizer, LinearOnRunsOfOneKind) {
  for (const char* name : kDifferent) {
    for (const char* unit : {"a", "A", " ", "\n", " \n", "\t", "1", "'", ".", "漢", "\u3000", "é",
                             "\u0301", "\xFF", "'s", "a ", " .", "\n ", "😀"}) {
      expect_linear(unit, [&](const std::string& text) {
        size_t count = 0;
        find_pre_tokenizer(name)->split(text, [&](std::string_view) { ++count; });
        EXPECT_GT(count, 0u);
      });
    }
  }
}

}  // namespace
}  // namespace octavo::tokenizer
