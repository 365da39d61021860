// tokenizer.json files against the ids that Hugging Face's `tokenizers` gives for them, and what
// may be wrong with such a file.
#include "tokenizer/hf_tokenizer.h"

#include "base/rng.h"
#include "test_data.h"
#include "tokenizer/detokenizer.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

constexpr const char* kSource = "m/tokenizer.json";

Result<std::unique_ptr<Tokenizer>> load(const Json& json, const Json* config = nullptr,
                                        std::span<const int64_t> eos_ids = {}) {
  return load_hf_tokenizer({.tokenizer = json, .tokenizer_config = config, .eos_ids = eos_ids},
                           kSource);
}

std::unique_ptr<Tokenizer> expect_loads(const Json& json, const Json* config = nullptr,
                                        std::span<const int64_t> eos_ids = {}) {
  auto tokenizer = load(json, config, eos_ids);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

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

constexpr TokenId kBos = 6, kEnd = 7;

// a b Ġ ab Ġa [hole] <s> <|end|> <think>
Json small_file() {
  return parse_json(R"({
    "added_tokens": [
      {"id": 6, "content": "<s>", "special": true, "normalized": false},
      {"id": 7, "content": "<|end|>", "special": true, "rstrip": true, "normalized": false},
      {"id": 8, "content": "<think>", "special": false, "normalized": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4},
      "merges": ["a b", ["Ġ", "a"]]}
  })",
                    "test")
      .value();
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
  const auto with_file = load_hf_tokenizer(
      {.tokenizer = json, .tokenizer_config = &config, .chat_template = "file"}, kSource);
  EXPECT_EQ((*with_file)->render("[]", {}).value().text, "file");
  EXPECT_FALSE(expect_loads(json)->has_chat_template());
}

// A path of keys and indices, what is put there (nothing: it is removed), and the error.
struct BadCase {
  std::vector<const char*> path;
  const char* value;
  StatusCode code;
  const char* says;
};

Json* find_path(Json& json, std::span<const char* const> path) {
  Json* at = &json;
  for (const char* step : path) {
    at = at->is_array() ? &at->get_array()[static_cast<size_t>(std::atoi(step))]
                        : &at->as_object()[step];
  }
  return at;
}

void expect_refused(const BadCase& bad) {
  Json json = small_file();
  if (*bad.value == '\0') {
    const std::span<const char* const> path(bad.path);
    find_path(json, path.first(path.size() - 1))->as_object().erase(path.back());
  } else {
    *find_path(json, bad.path) = parse_json(bad.value, "value").value();
  }
  const auto tokenizer = load(json);
  ASSERT_FALSE(tokenizer.ok()) << bad.value << " " << bad.says;
  const std::string& message = tokenizer.status().message();
  EXPECT_EQ(tokenizer.status().code(), bad.code) << message;
  EXPECT_EQ(message.rfind("m/tokenizer.json: ", 0), 0u) << message;
  EXPECT_NE(message.find(bad.says), std::string::npos) << message << " lacks " << bad.says;
}

constexpr StatusCode kLoss = StatusCode::kDataLoss;
constexpr StatusCode kCannot = StatusCode::kUnsupported;

TEST(HfTokenizer, SaysWhatIsWrongWithTheModel) {
  const BadCase cases[] = {
      {{"model"}, "", kLoss, "'model' is missing"},
      {{"model"}, "7", kLoss, "'model.vocab' is missing"},
      {{"model", "type"}, "", kLoss, "'type' is missing"},
      {{"model", "type"}, R"("WordPiece")", kCannot, "'WordPiece'"},
      {{"model", "vocab"}, "", kLoss, "'model.vocab' is missing"},
      {{"model", "vocab"}, "[]", kLoss, "'model.vocab' must be an object"},
      {{"model", "vocab"}, "{}", kLoss, "'model.vocab' is empty"},
      {{"model", "vocab", "a"}, "1.5", kLoss, "the id of 'a' is not an integer"},
      {{"model", "vocab", "a"}, R"("0")", kLoss, "the id of 'a' is not an integer"},
      {{"model", "vocab", "a"}, "1", kLoss, "both have the id 1"},
      {{"model", "vocab", "a"}, "-1", kLoss, "'a' has the id -1"},
      {{"model", "vocab", "a"}, "2000000000", kLoss, "'a' has the id 2000000000"},
      {{"model", "vocab", "a"}, "18446744073709551615", kLoss, "the id of 'a'"},
      {{"model", "vocab", "ab"}, "", kLoss, "'merges'[0]: 'ab' is not in the vocabulary"},
      {{"model", "merges"}, "", kLoss, "'merges' is missing"},
      {{"model", "merges"}, "{}", kLoss, "'merges' must be an array"},
      {{"model", "merges", "1"}, "5", kLoss, "'merges'[1]"},
      {{"model", "merges", "1"}, R"("ab")", kLoss, "'merges'[1]"},
      {{"model", "merges", "0"}, R"("a b ")", kLoss, "'merges'[0]"},
      {{"model", "merges", "0"}, R"(["a"])", kLoss, "'merges'[0]"},
      {{"model", "merges", "0"}, R"(["a", 1])", kLoss, "'merges'[0]"},
      {{"model", "merges", "0"}, R"(["a", ""])", kLoss, "'merges'[0]"},
      {{"model", "merges", "0"}, R"("a x")", kLoss, "'merges'[0]: 'x'"},
      {{"model", "ignore_merges"}, "1", kLoss, "'ignore_merges' must be true or false"},
      {{"model", "byte_fallback"}, "true", kCannot, "'byte_fallback'"},
      {{"model", "dropout"}, "0.1", kCannot, "'dropout'"},
      {{"model", "end_of_word_suffix"}, R"("</w>")", kCannot, "'end_of_word_suffix' is '</w>'"},
      {{"model", "continuing_subword_prefix"}, "3", kLoss, "'continuing_subword_prefix'"},
      {{"model", "unk_token"}, R"("a")", kCannot, "'unk_token'"},
  };
  for (const BadCase& bad : cases) expect_refused(bad);
  EXPECT_EQ(load(Json(1)).status().code(), kLoss);
  EXPECT_EQ(load(JsonArray{}).status().code(), kLoss);
}

TEST(HfTokenizer, SaysWhatIsWrongAroundTheModel) {
  const char* const split = "pretokenizers";
  const BadCase cases[] = {
      {{"added_tokens"}, "3", kLoss, "'added_tokens' must be an array"},
      {{"added_tokens", "1"}, "3", kLoss, "'added_tokens'[1]: 'id' is missing"},
      {{"added_tokens", "1", "id"}, "-3", kLoss, "'added_tokens'[1]: 'id' is -3"},
      {{"added_tokens", "1", "id"}, "6", kLoss, "'<s>' and '<|end|>' both have the id 6"},
      {{"added_tokens", "1", "id"}, "900000", kLoss, "'<|end|>' has the id 900000"},
      {{"added_tokens", "1", "content"}, "", kLoss, "'added_tokens'[1]: 'content'"},
      {{"added_tokens", "1", "rstrip"}, "1", kLoss, "'added_tokens'[1]: 'rstrip' must be"},
      {{"normalizer", "type"}, R"("Precompiled")", kCannot, "'normalizer': 'Precompiled'"},
      {{"normalizer"}, R"({"type": "Replace", "content": ""})", kLoss, "'pattern' is missing"},
      {{"normalizer"}, R"({"type": "Strip", "strip_left": true})", kLoss, "'strip_right'"},
      {{"normalizer"}, R"({"type": "Sequence"})", kLoss, "'normalizers' is missing"},
      {{"normalizer"}, R"({"type": "Prepend"})", kLoss, "'prepend' is missing"},
      {{"pre_tokenizer"}, "", kCannot, "'ByteLevel'"},
      {{"pre_tokenizer", "type"}, R"("Metaspace")", kCannot, "'pre_tokenizer': 'Metaspace'"},
      {{"pre_tokenizer", split}, "", kLoss, "'pretokenizers' is missing"},
      {{"pre_tokenizer", split, "1", "type"}, R"("Digits")", kCannot, "no 'ByteLevel'"},
      {{"pre_tokenizer", split, "0", "type"}, R"("ByteLevel")", kLoss, "'add_prefix_space'"},
      {{"pre_tokenizer", split, "0", "behavior"}, R"("Removes")", kCannot, "'Removes'"},
      {{"pre_tokenizer", split, "0", "invert"}, "1", kLoss, "'invert' must be"},
      {{"pre_tokenizer", split, "0", "pattern"}, "{}", kLoss, "'Regex' is missing"},
      {{"pre_tokenizer", split, "0", "pattern"}, R"({"String": ""})", kLoss, "'String' is empty"},
      {{"pre_tokenizer", split, "0", "pattern", "Regex"}, R"("a(b")", kLoss, "'a(b'"},
      {{"pre_tokenizer", split, "0", "pattern", "Regex"}, R"("[a&&b]")", kCannot, "'&&'"},
      {{"post_processor", "type"}, R"("BertProcessing")", kCannot, "'BertProcessing'"},
      {{"post_processor", "single"}, "", kLoss, "'single' is missing"},
      {{"post_processor", "single"}, "[]", kLoss, "0 texts"},
      {{"post_processor", "single", "0"}, "7", kLoss, "neither 'SpecialToken' nor 'Sequence'"},
      {{"post_processor", "special_tokens"}, "", kLoss, "'special_tokens' lacks '<s>'"},
      {{"post_processor", "special_tokens", "<s>", "ids"}, "[9]", kLoss, "'ids' of '<s>'"},
      {{"decoder", "type"}, R"("WordPiece")", kCannot, "'decoder': 'WordPiece'"},
  };
  for (const BadCase& bad : cases) expect_refused(bad);
}

TEST(HfTokenizer, SaysWhatIsWrongWithTheConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"bos_token": 1})", "'bos_token' must be a string"},
      {R"({"eos_token": {"id": 1}})", "'content' is missing"},
      {R"({"add_bos_token": "yes"})", "'add_bos_token' must be true or false"},
  };
  for (const auto& [text, says] : cases) {
    const Json config = parse_json(text, "config").value();
    const auto tokenizer = load(small_file(), &config);
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_NE(tokenizer.status().message().find(says), std::string::npos)
        << tokenizer.status().message();
  }
  const Json broken = parse_json(R"({"chat_template": "{{ oh"})", "config").value();
  const auto tokenizer = expect_loads(small_file(), &broken);
  EXPECT_FALSE(tokenizer->has_chat_template());
  EXPECT_NE(tokenizer->render("[]", {}).status().message().find("tokenizer_config"),
            std::string::npos);
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
