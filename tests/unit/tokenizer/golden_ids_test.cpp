// Ids against what Hugging Face and llama.cpp give for real vocabularies.
#include "base/rng.h"
#include "test_data.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

// Texts and ids of llama.cpp's test suite, which have no special tokens.
void expect_vocabulary_test_ids(const std::string& name) {
  const std::string path = "vocabs/ggml-vocab-" + name + ".gguf";
  const auto tokenizer = load_or_fail(read_vocabulary_metadata(path));
  const std::string texts = read_test_data(path + ".inp");
  const std::string ids = read_test_data(path + ".out");
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  size_t count = 0;
  size_t line_begin = 0;
  for (size_t begin = 0; begin < texts.size(); ++count) {
    const size_t end = texts.find(kSeparator, begin);
    ASSERT_NE(end, std::string::npos);
    const size_t line_end = ids.find('\n', line_begin);
    ASSERT_NE(line_end, std::string::npos);
    std::string found;
    const std::string text = texts.substr(begin, end - begin);
    for (const TokenId id : encode_or_fail(*tokenizer, text, kPlainText)) {
      found += " " + std::to_string(id);
    }
    EXPECT_EQ(found, ids.substr(line_begin, line_end - line_begin)) << name << ": " << text;
    begin = end + kSeparator.size();
    line_begin = line_end + 1;
  }
  EXPECT_EQ(count, 46u);
}

TEST(GoldenIds, Gpt2) {
  expect_vocabulary_test_ids("gpt-2");
}
TEST(GoldenIds, Starcoder) {
  expect_vocabulary_test_ids("starcoder");
}
TEST(GoldenIds, DeepseekCoder) {
  expect_vocabulary_test_ids("deepseek-coder");
}
TEST(GoldenIds, LlamaSentencePiece) {
  expect_vocabulary_test_ids("llama-spm");
}

void expect_golden_ids(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<std::string> texts = read_golden_texts();
  const JsonArray golden = read_test_array("tokenizer/ids_" + name + ".json");
  ASSERT_EQ(golden.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(tokenizer.encode(texts[i], kPlainText).value(), to_integers<TokenId>(golden.at(i)))
        << texts[i];
  }
}

TEST(GoldenIds, Gpt2OnRandomTexts) {
  expect_golden_ids(gpt2_tokenizer(), "gpt-2");
}
TEST(GoldenIds, Smollm2OnRandomTexts) {
  expect_golden_ids(smollm2_tokenizer(), "smollm2");
}

TEST(GoldenIds, Smollm2ControlTokens) {
  size_t control = 0;
  for (const Json& row : read_test_array("tokenizer/special_smollm2.json")) {
    const Ids ids = to_integers<TokenId>(row.at(1));
    const std::string_view text = to_view(row.at(0).as_string());
    ASSERT_EQ(smollm2_tokenizer().encode(text, kWithSpecial).value(), ids) << text;
    const auto is_control = [](TokenId id) { return smollm2_tokenizer().is_control(id); };
    control += static_cast<size_t>(std::count_if(ids.begin(), ids.end(), is_control));
    const Ids plain = smollm2_tokenizer().encode(text, kPlainText).value();
    ASSERT_TRUE(std::none_of(plain.begin(), plain.end(), is_control)) << text;
  }
  EXPECT_GT(control, 300u);
}

TEST(GoldenIds, Smollm2Rows) {
  const Json golden = read_test_json("smollm2/golden.json");
  const JsonArray& rows = golden.at("tokens").at("rows").as_array();
  EXPECT_EQ(rows.size(), 24u);
  for (const Json& row : rows) {
    const std::string_view text = to_view(row.at("text").as_string());
    EXPECT_EQ(smollm2_tokenizer().encode(text, kWithSpecial).value(),
              to_integers<TokenId>(row.at("ids")))
        << text;
  }
}

TEST(GoldenIds, Smollm2RenderedPrompts) {
  const Json golden = read_test_json("smollm2/golden.json");
  for (const Json& row : golden.at("chat_template").as_array()) {
    const RenderedPrompt prompt{std::string(to_view(row.at("text").as_string())), {}};
    EXPECT_EQ(smollm2_tokenizer().encode_prompt(prompt).value(),
              to_integers<TokenId>(row.at("ids")));
  }
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

TEST(GoldenIds, Smollm2LongText) {
  const Ids ids =
      smollm2_tokenizer().encode(read_test_data("smollm2/text.txt"), kPlainText).value();
  EXPECT_EQ(ids.size(), 1409u);
  EXPECT_EQ(crc32({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)}),
            0xe0484617u);
}

// Every byte has a token in GPT-2's vocabulary.
TEST(GoldenIds, AnyBytesComeBack) {
  Rng rng(2);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t n = rng.next_u64() % 60; n > 0; --n) {
      text += static_cast<char>(rng.next_u64() % 256);
    }
    std::string bytes;
    for (const TokenId id : encode_or_fail(gpt2_tokenizer(), text, kWithSpecial)) {
      bytes += gpt2_tokenizer().token_bytes(id, true);
    }
    ASSERT_EQ(bytes, text);
  }
}

TEST(GoldenIds, LinearOnLongPieces) {
  for (const char* unit : {"a", "ab", " ", "\n", "漢", "'", "<|", "<|endoftext|", "\xFF"}) {
    expect_linear(unit, [&](const std::string& text) {
      EXPECT_FALSE(encode_or_fail(gpt2_tokenizer(), text, kWithSpecial).empty());
    });
  }
}

}  // namespace
}  // namespace octavo::tokenizer
