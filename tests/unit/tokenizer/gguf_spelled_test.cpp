// GGUF vocabularies that spell text, not bytes: the same as tokenizer.json files of Hugging Face,
// and the ids that it gives.
#include "hf_test_util.h"
#include "tokenizer/detokenizer.h"

namespace octavo::tokenizer {
namespace {

// A golden case of tokenizer_json, with the vocabulary of its model.
struct SpelledCase {
  JsonArray tokens;
  JsonArray kinds;
  JsonArray merges;
  JsonArray rows;
};

SpelledCase read_case(const std::string& name) {
  const Json models = read_test_json("tokenizer_json/spelled_models.json");
  SpelledCase found;
  for (const Json& test : read_test_array("tokenizer_json/spelled_cases.json")) {
    if (to_view(test.at("name").as_string()) != name) continue;
    const Json& model = models.at(to_view(test.at("model").as_string()));
    const JsonObject& vocab = model.at("vocab").as_object();
    found.tokens.resize(vocab.size());
    found.kinds = JsonArray(vocab.size(), 1);
    for (const auto& entry : vocab) {
      found.tokens[entry.value().to_number<size_t>()] = std::string_view(entry.key());
    }
    for (const Json& added : test.at("tokenizer").at("added_tokens").as_array()) {
      found.kinds[added.at("id").to_number<size_t>()] = 3;
    }
    if (const Json* merges = json_find(model, "merges")) {
      for (const Json& merge : merges->as_array()) {
        found.merges.emplace_back(std::string(to_view(merge.at(0).as_string())) + " " +
                                  std::string(to_view(merge.at(1).as_string())));
      }
    }
    found.rows = test.at("rows").as_array();
  }
  EXPECT_FALSE(found.rows.empty()) << name;
  return found;
}

// As converters to GGUF spell a WordPiece vocabulary: tokens that start a word begin with U+2581,
// and "##" is left out.
JsonObject word_piece_metadata(const SpelledCase& test) {
  JsonArray tokens = test.tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (test.kinds[i] == Json(3)) continue;
    const std::string piece(to_view(tokens[i].get_string()));
    tokens[i] = piece.starts_with("##") ? piece.substr(2) : "\u2581" + piece;
  }
  return {{"tokenizer.ggml.model", "bert"},          {"tokenizer.ggml.tokens", std::move(tokens)},
          {"tokenizer.ggml.token_type", test.kinds}, {"tokenizer.ggml.bos_token_id", 2},
          {"tokenizer.ggml.unknown_token_id", 1},    {"tokenizer.ggml.seperator_token_id", 3},
          {"tokenizer.ggml.padding_token_id", 0}};
}

void expect_rows(const Tokenizer& tokenizer, const JsonArray& rows, const std::string& name) {
  for (const Json& row : rows) {
    const std::string_view text = to_view(row.at(0).as_string());
    EXPECT_EQ(encode_or_fail(tokenizer, text, kWithSpecial), to_integers<TokenId>(row.at(1)))
        << name << ": '" << text << "'";
    EXPECT_EQ(encode_or_fail(tokenizer, text, {.add_special = true, .parse_special = true}),
              to_integers<TokenId>(row.at(2)))
        << name << ": '" << text << "'";
  }
}

TEST(GgufWordPiece, IdsAreThoseOfHuggingFace) {
  for (const char* name : {"bert_uncased", "bert_cased"}) {
    const SpelledCase test = read_case(name);
    expect_rows(*load_or_fail(word_piece_metadata(test)), test.rows, name);
  }
}

TEST(GgufWordPiece, TheFileSaysHowTextIsNormalised) {
  SpelledCase test = read_case("bert_accents");
  JsonObject metadata = word_piece_metadata(test);
  metadata["tokenizer.ggml.normalizer.strip_accents"] = false;
  expect_rows(*load_or_fail(metadata), test.rows, "bert_accents");

  test = read_case("bert_stripped_case");
  metadata = word_piece_metadata(test);
  metadata["tokenizer.ggml.normalizer.strip_accents"] = true;
  expect_rows(*load_or_fail(metadata), test.rows, "bert_stripped_case");
  metadata["tokenizer.ggml.normalizer.lowercase"] = false;
  expect_rows(*load_or_fail(metadata), test.rows, "bert_stripped_case");
}

// [PAD] [UNK] [CLS] [SEP] ▁hello ▁wor ld ▁. ▁' ▁s ▁h
JsonObject small_word_piece() {
  return {{"tokenizer.ggml.model", "bert"},
          {"tokenizer.ggml.tokens",
           {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581hello", "\u2581wor", "ld", "\u2581.",
            "\u2581'", "\u2581s", "\u2581h"}}};
}

TEST(GgufWordPiece, WordsAndText) {
  const auto tokenizer = load_or_fail(small_word_piece());
  EXPECT_EQ(tokenizer->encode("Hello  WORLD.", {}).value(), (Ids{2, 4, 5, 6, 7, 3}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "hello hellx wor", kPlainText), (Ids{4, 1, 5}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "[SEP]", kWithSpecial), (Ids{3}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "[SEP]", kPlainText), (Ids{1, 1, 1}));
  EXPECT_EQ(encode_or_fail(*tokenizer, std::string(101, 'h'), kPlainText), (Ids{1}));
  EXPECT_EQ(encode_or_fail(*tokenizer, "h\xFF hello", kPlainText), (Ids{1, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 4, 5, 6, 7, 3}, false).value(), "hello world.");
  EXPECT_EQ(tokenizer->bos_id(), 2);
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(5), "wor");
  EXPECT_EQ(stream.push(6), "ld");
  EXPECT_EQ(stream.push(4), " hello");
}

TEST(GgufWordPiece, AddsWhatTheFileWants) {
  JsonObject metadata = small_word_piece();
  metadata["tokenizer.ggml.add_sep_token"] = false;
  EXPECT_EQ(load_or_fail(metadata)->encode("hello", {}).value(), (Ids{2, 4}));
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(load_or_fail(metadata)->encode("hello", {}).value(), (Ids{4}));
  metadata["tokenizer.ggml.cls_token_id"] = 10;
  metadata["tokenizer.ggml.add_bos_token"] = true;
  EXPECT_EQ(load_or_fail(metadata)->encode("hello", {}).value(), (Ids{10, 4}));
}

TEST(GgufWordPiece, SaysWhatIsWrong) {
  const auto refuse = [](const char* key, const Json& value, size_t without, const char* says) {
    JsonObject metadata = small_word_piece();
    if (value.is_null()) {
      metadata["tokenizer.ggml.tokens"].as_array()[without] = "other";
    } else {
      metadata[key] = value;
    }
    const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
    ASSERT_FALSE(tokenizer.ok()) << says;
    EXPECT_NE(tokenizer.status().message().find(says), std::string::npos)
        << tokenizer.status().message();
  };
  refuse("", nullptr, 1, "'tokenizer.ggml.unknown_token_id' is missing, and no token is '[UNK]'");
  refuse("", nullptr, 2, "'tokenizer.ggml.cls_token_id' is missing, and no token is '[CLS]'");
  refuse("", nullptr, 3, "'tokenizer.ggml.seperator_token_id' is missing, and no token is '[SEP]'");
  refuse("tokenizer.ggml.unknown_token_id", "1", 0, "must be an integer");
  refuse("tokenizer.ggml.normalizer.lowercase", 1, 0, "must be true or false");
  refuse("tokenizer.ggml.normalizer.strip_accents", "x", 0, "must be true or false");
  refuse("tokenizer.ggml.add_sep_token", 2, 0, "must be true or false");
}

TEST(GgufWordPiece, LinearOnLongTexts) {
  const auto tokenizer = load_or_fail(small_word_piece());
  for (const char* unit : {"h", "hello ", "hx ", ".", "\u4e00", "\u0301", "\xFF", " "}) {
    expect_linear(unit, [&](const std::string& text) {
      EXPECT_TRUE(tokenizer->encode(text, kWithSpecial).ok());
    });
  }
}

// Whatever the metadata, loading and using it ends in an error or in ids of the vocabulary.
TEST(GgufSpelled, SurvivesRandomMetadata) {
  Rng rng(5);
  JsonObject bpe = small_word_piece();
  bpe["tokenizer.ggml.model"] = "gemma4";
  bpe["tokenizer.ggml.merges"] = {"\u2581wor ld", "\u2581h ld"};
  bpe["tokenizer.ggml.tokens"] = {"<unk>",       "\u2581",  "a",         "\u2581wor", "ld",
                                  "\u2581world", "\u2581h", "\u2581hld", "<0x0A>",    "<0xC3>"};
  const Json values[] = {nullptr, true, -1, 3, 1e9, "", "a", "\xFF", JsonArray{}, {"a"}, {1, 3}};
  for (const JsonObject& base : {small_word_piece(), bpe}) {
    size_t loaded = 0;
    for (int round = 0; round < 2000; ++round) {
      JsonObject metadata = base;
      damage_field(rng, metadata, values);
      const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
      if (!tokenizer.ok()) continue;
      ++loaded;
      const Ids ids = (*tokenizer)->encode("Hello WORLD\xFF [SEP] a\n", {true, true}).value();
      EXPECT_TRUE((*tokenizer)->decode(ids, true).ok());
    }
    EXPECT_GT(loaded, 50u);
  }
}

// Byte-pair encoding of spelled text, as Gemma's tokenizer.json has it.
TEST(GgufSpelledBpe, IdsAreThoseOfHuggingFace) {
  SpelledCase test = read_case("gemma");
  for (size_t i = 0; i < test.tokens.size(); ++i) {
    if (to_view(test.tokens[i].get_string()).starts_with("<0x")) test.kinds[i] = 6;
  }
  const JsonObject metadata = {
      {"tokenizer.ggml.model", "gemma4"},        {"tokenizer.ggml.tokens", test.tokens},
      {"tokenizer.ggml.token_type", test.kinds}, {"tokenizer.ggml.merges", test.merges},
      {"tokenizer.ggml.bos_token_id", 1},        {"tokenizer.ggml.eos_token_id", 2},
      {"tokenizer.ggml.unknown_token_id", 0}};
  const auto tokenizer = load_or_fail(metadata);
  expect_rows(*tokenizer, test.rows, "gemma");
  EXPECT_EQ(
      tokenizer->decode(encode_or_fail(*tokenizer, " the \xF0\x9F\xA6\x99", kPlainText), false)
          .value(),
      " the \xF0\x9F\xA6\x99");
}

}  // namespace
}  // namespace octavo::tokenizer
