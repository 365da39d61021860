// SentencePiece's kind of vocabulary, from GGUF metadata: a small one made by hand, and Llama 2's.
#include "tokenizer/spm_model.h"

#include "base/rng.h"
#include "test_data.h"
#include "tokenizer/detokenizer.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

// <unk> <s> </s> ▁ a b ab ▁a ▁ab ba <0xC3> <0xA9>
JsonObject small_spm_metadata() {
  return {
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens",
       {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "▁ab", "ba", "<0xC3>", "<0xa9>"}},
      {"tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 6, 6}},
      {"tokenizer.ggml.scores", {0, 0, 0, -10, -11, -12, -1, -2, -3, -1, 0, 0}},
      {"tokenizer.ggml.bos_token_id", 1},
      {"tokenizer.ggml.eos_token_id", 2},
  };
}

TEST(SpmModel, MergesByScoreThenFromTheLeft) {
  const auto tokenizer = load_or_fail(small_spm_metadata());
  EXPECT_EQ(tokenizer->encode("ab", {}).value(), (Ids{1, 8}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "aba", kPlainText), (Ids{8, 4}));  // ab and ba score alike
  EXPECT_EQ(encode_or_fail(*tokenizer, "b ba", kPlainText), (Ids{3, 5, 3, 9}));
  EXPECT_EQ(encode_or_fail(*tokenizer, " a", kPlainText), (Ids{3, 7}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "▁a", kPlainText), (Ids{3, 7}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "", kPlainText), Ids{});
  EXPECT_EQ(tokenizer->encode("", {}).value(), (Ids{1}));
}

TEST(SpmModel, CharactersWithoutATokenBecomeBytes) {
  const auto tokenizer = load_or_fail(small_spm_metadata());
  EXPECT_EQ(encode_or_fail(*tokenizer, "aéa", kPlainText), (Ids{7, 10, 11, 4}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "a\xA9ż", kPlainText), (Ids{7, 11}));  // ż has no bytes
  EXPECT_EQ(tokenizer->token_bytes(10, false), "\xC3");
  EXPECT_EQ(tokenizer->token_piece(10), "<0xC3>");
}

TEST(SpmModel, SpecialTokensOnlyWhereAskedFor) {
  const auto tokenizer = load_or_fail(small_spm_metadata());
  EXPECT_EQ(encode_or_fail(*tokenizer, "a<s>b", kWithSpecial), (Ids{7, 1, 3, 5}));
  const Ids plain = encode_or_fail(*tokenizer, "<s></s><unk>", kPlainText);
  EXPECT_TRUE(std::none_of(plain.begin(), plain.end(),
                           [&](TokenId id) { return tokenizer->is_control(id); }));
}

TEST(SpmModel, WithoutSpacePrefix) {
  JsonObject metadata = small_spm_metadata();
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  const auto tokenizer = load_or_fail(metadata);
  EXPECT_EQ(encode_or_fail(*tokenizer, "ab ab", kPlainText), (Ids{6, 8}));
  EXPECT_EQ(tokenizer->decode(Ids{8, 8}, false).value(), " ab ab");
}

TEST(SpmModel, OneSpaceIsLeftOutAtTheVeryStart) {
  const auto tokenizer = load_or_fail(small_spm_metadata());
  EXPECT_EQ(tokenizer->decode(Ids{1, 8, 8}, false).value(), "ab ab");
  EXPECT_EQ(tokenizer->decode(Ids{3, 3, 4}, false).value(), " a");
  EXPECT_EQ(tokenizer->decode(Ids{1, 8}, true).value(), "<s> ab");
  EXPECT_EQ(tokenizer->decode(Ids{4, 8}, false).value(), "a ab");
}

TEST(SpmModel, StreamingIsDecodingAtOnce) {
  const auto tokenizer = load_or_fail(small_spm_metadata());
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    Ids ids(rng.next_u64() % 8);
    for (TokenId& id : ids) id = static_cast<TokenId>(rng.next_u64() % 12);
    for (const bool show_special : {false, true}) {
      Detokenizer detokenizer(*tokenizer, show_special);
      std::string text;
      for (const TokenId id : ids) text += detokenizer.push(id);
      text += detokenizer.flush();
      ASSERT_EQ(text, tokenizer->decode(ids, show_special).value());
    }
  }
}

TEST(SpmModel, SaysWhatIsWrong) {
  const std::pair<const char*, Json> cases[] = {
      {"tokenizer.ggml.scores", nullptr},    {"tokenizer.ggml.scores", 1},
      {"tokenizer.ggml.scores", {1, 2}},     {"tokenizer.ggml.add_space_prefix", 1},
      {"tokenizer.ggml.token_type", {1, 2}}, {"tokenizer.ggml.tokens", nullptr},
  };
  for (const auto& [key, value] : cases) {
    JsonObject metadata = small_spm_metadata();
    metadata[key] = value;
    const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
    ASSERT_FALSE(tokenizer.ok()) << key;
    EXPECT_NE(tokenizer.status().message().find(key), std::string::npos);
  }
  for (const Json& score : {Json("1"), Json(std::numeric_limits<double>::quiet_NaN())}) {
    JsonObject metadata = small_spm_metadata();
    metadata["tokenizer.ggml.scores"].as_array()[4] = score;
    const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_NE(tokenizer.status().message().find("'tokenizer.ggml.scores'[4]"), std::string::npos);
  }
}

const Tokenizer& llama2_tokenizer() {
  static const auto tokenizer =
      load_or_fail(read_vocabulary_metadata("vocabs/ggml-vocab-llama-spm.gguf"));
  return *tokenizer;
}

TEST(SpmModel, AnyTextComesBack) {
  for (const std::string& text : read_golden_texts()) {
    if (text.find("▁") != std::string::npos) continue;
    const Ids ids = encode_or_fail(llama2_tokenizer(), text, kPlainText);
    ASSERT_EQ(llama2_tokenizer().decode(ids, false).value(), text);
  }
}

TEST(SpmModel, LinearOnLongTexts) {
  for (const char* unit : {"a", " ", "ab", "漢", "hello ", "\xFF"}) {
    expect_linear(unit, [&](const std::string& text) {
      EXPECT_FALSE(encode_or_fail(llama2_tokenizer(), text, kWithSpecial).empty());
    });
  }
}

}  // namespace
}  // namespace octavo::tokenizer
