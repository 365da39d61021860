// tokenizer.json files against the ids that Hugging Face's `tokenizers` gives for them.
#include "tokenizer/hf_tokenizer.h"

#include "base/rng.h"
#include "hf_test_util.h"
#include "tokenizer/detokenizer.h"

namespace octavo::tokenizer {
namespace {

// The cases' files hold no vocabulary of their own.
Json with_vocabulary(const Json& file) {
  static const Json shared = read_test_json("tokenizer_json/vocab.json");
  Json json = file;
  for (const char* key : {"vocab", "merges"}) json.at("model").as_object()[key] = shared.at(key);
  return json;
}

TEST(HfTokenizer, IdsAreThoseOfHuggingFace) {
  size_t rows = 0;
  for (const Json& test : read_test_array("tokenizer_json/cases.json")) {
    const auto tokenizer = expect_loads(with_vocabulary(test.at("tokenizer")));
    for (const Json& row : test.at("rows").as_array()) {
      const std::string_view text = to_view(row.at(0).as_string());
      const JsonArray& ids = row.as_array();
      EXPECT_EQ(encode_or_fail(*tokenizer, text, kWithSpecial), to_integers<TokenId>(ids[1]))
          << test.at("name") << ": '" << text << "'";
      EXPECT_EQ(encode_or_fail(*tokenizer, text, {.add_special = true, .parse_special = true}),
                to_integers<TokenId>(ids.back()))
          << test.at("name") << ": '" << text << "'";
      ++rows;
    }
  }
  EXPECT_GT(rows, 2000u);
}

// What decoding gives, but for a text that starts with a space that none was put before: there the
// package takes away all, octavo one.
void expect_decodes(const Tokenizer& tokenizer, const Json& test) {
  for (size_t i = 0; i < test.at("decoded").as_array().size(); ++i) {
    const Json& row = test.at("rows").at(i);
    const std::string_view text = to_view(row.at(0).as_string());
    if (text.starts_with(' ') || text.starts_with("▁") || text.starts_with("_")) continue;
    EXPECT_EQ(tokenizer.decode(to_integers<TokenId>(row.at(1)), false).value(),
              to_view(test.at("decoded").at(i).as_string()))
        << test.at("name") << ": '" << text << "'";
  }
}

TEST(HfTokenizer, IdsOfSpelledVocabulariesAreThoseOfHuggingFace) {
  const Json models = read_test_json("tokenizer_json/spelled_models.json");
  size_t rows = 0;
  for (const Json& test : read_test_array("tokenizer_json/spelled_cases.json")) {
    Json json = test.at("tokenizer");
    for (const auto& entry : models.at(to_view(test.at("model").as_string())).as_object()) {
      json.at("model").as_object()[entry.key()] = entry.value();
    }
    const auto tokenizer = expect_loads(json);
    for (const Json& row : test.at("rows").as_array()) {
      const std::string_view text = to_view(row.at(0).as_string());
      EXPECT_EQ(encode_or_fail(*tokenizer, text, kWithSpecial), to_integers<TokenId>(row.at(1)))
          << test.at("name") << ": '" << text << "'";
      EXPECT_EQ(encode_or_fail(*tokenizer, text, {.add_special = true, .parse_special = true}),
                to_integers<TokenId>(row.at(2)))
          << test.at("name") << ": '" << text << "'";
      ++rows;
    }
    expect_decodes(*tokenizer, test);
  }
  EXPECT_GE(rows, 1000u);
}

TEST(HfTokenizer, EncodesAndDecodes) {
  const auto tokenizer = expect_loads(small_file());
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->encode("ab a", {}).value(), (Ids{kBos, 3, 4}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "ab<|end|>  a<think>", kWithSpecial), (Ids{3, kEnd, 0, 8}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "<think><|end|>", kPlainText), (Ids{8}));
  EXPECT_EQ(tokenizer->decode(Ids{kBos, 3, 4, 8, 5}, false).value(), "ab a<think>");
  EXPECT_EQ(tokenizer->decode(Ids{kBos, 3}, true).value(), "<s>ab");
  EXPECT_EQ(tokenizer->encode_prompt({"<s>ab", {}}).value(), (Ids{kBos, 3}));
  EXPECT_EQ(tokenizer->encode_prompt({"<s>ab<s>", {{3, 8}}}).value(), (Ids{kBos, 3}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "a\xFF\xC3 a", kPlainText), (Ids{0, 4}));
}

TEST(HfTokenizer, ReadsTheConfig) {
  const Json config = parse_json(R"({
    "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "<|end|>", "pad_token": null,
    "unk_token": "gone", "add_bos_token": false, "add_eos_token": true,
    "chat_template": [{"name": "tool_use", "template": "no"},
                      {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}"}]
  })",
                                 "config")
                          .value();
  const int64_t eos_ids[] = {8, 7, 99, -1, 8};
  const auto tokenizer = expect_loads(small_file(), &config, eos_ids);
  EXPECT_EQ(tokenizer->bos_id(), kBos);
  EXPECT_EQ(tokenizer->eos_id(), kEnd);
  EXPECT_EQ(Ids(tokenizer->stop_ids().begin(), tokenizer->stop_ids().end()), (Ids{7, 8}));
  EXPECT_EQ(tokenizer->encode("ab", {}).value(), (Ids{3, kEnd}));
  const auto prompt = tokenizer->render(R"([{"role": "user", "content": "<s>"}])", {});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(prompt->text, "<s><s>");
  EXPECT_EQ(prompt->user_spans, (std::vector<TextSpan>{{3, 6}}));

  const Json json = small_file();
  const auto with_file =
      load_hf_tokenizer(json, {.tokenizer_config = &config, .chat_template = "file"}, kSource);
  EXPECT_EQ((*with_file)->render("[]", {}).value().text, "file");
  EXPECT_FALSE(expect_loads(json)->has_chat_template());
}

// A pattern that backtracks without end is an error of the text, not a hang.
TEST(HfTokenizer, PatternsThatNeedTooManyStepsAreErrors) {
  Json json = small_file();
  const char* const path[] = {"pre_tokenizer", "pretokenizers", "0", "pattern", "Regex"};
  *find_path(json, path) = "(a+)+(a|aa)+c";
  const auto tokenizer = expect_loads(json);
  EXPECT_TRUE(tokenizer->encode("aab", {}).ok());
  EXPECT_EQ(tokenizer->encode(std::string(200, 'a') + "bc", {}).status().code(),
            StatusCode::kResourceExhausted);
}

// Recursion of a compiled pattern is bounded by the heap, not by the stack.
TEST(HfTokenizer, LongMatchesOfGroups) {
  Json json = small_file();
  const char* const path[] = {"pre_tokenizer", "pretokenizers", "0", "pattern", "Regex"};
  *find_path(json, path) = "(ab|b[ab])+";
  const auto tokenizer = expect_loads(json);
  std::string text;
  while (text.size() < 20000) text += "ab";
  EXPECT_EQ(encode_or_fail(*tokenizer, text, kPlainText).size(), text.size() / 2);
}

TEST(HfTokenizer, LinearOnLongPieces) {
  const auto tokenizer = expect_loads(small_file());
  for (const char* unit : {"a", "ab", " ", "<", "<think", "\xFF", "1"}) {
    expect_linear(unit, [&](const std::string& text) {
      EXPECT_TRUE(tokenizer->encode(text, kWithSpecial).ok());
    });
  }
}

// What comes out again is what went in, where nothing is normalised and every byte has a token.
TEST(HfTokenizer, AnyBytesComeBack) {
  const JsonArray cases = read_test_array("tokenizer_json/cases.json");
  const auto found = std::find_if(cases.begin(), cases.end(), [](const Json& test) {
    return test.at("name") == "pre_split_o200k";
  });
  ASSERT_NE(found, cases.end());
  const auto tokenizer = expect_loads(with_vocabulary(found->at("tokenizer")));
  Rng rng(3);
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (uint64_t n = rng.next_u64() % 40; n > 0; --n) {
      text += static_cast<char>(rng.next_u64() % 256);
    }
    std::string bytes;
    for (const TokenId id : encode_or_fail(*tokenizer, text, kWithSpecial)) {
      bytes += tokenizer->token_bytes(id, true);
    }
    ASSERT_EQ(bytes, text);
  }
}

}  // namespace
}  // namespace octavo::tokenizer
