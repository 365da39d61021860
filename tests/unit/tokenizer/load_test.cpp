// Small vocabularies made by hand: what the metadata says, what may be wrong with it, and how
// special tokens, spans and the texts around them behave.
#include "tokenizer/load.h"

#include "test_data.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kBos = 8, kEnd = 9, kUser = 10, kThink = 11;

// a b c Ġ ab Ġa é(as two bytes) <s> <|im_end|> <|user|> <think>
JsonObject small_bpe_metadata() {
  return {
      {"tokenizer.ggml.model", "gpt2"},
      {"tokenizer.ggml.pre", "gpt-2"},
      {"tokenizer.ggml.tokens",
       {"a", "b", "c", "Ġ", "ab", "Ġa", "Ã", "©", "<s>", "<|im_end|>", "<|user|>", "<think>"}},
      {"tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 4}},
      {"tokenizer.ggml.merges", {"a b", "Ġ a"}},
      {"tokenizer.ggml.bos_token_id", kBos},
      {"tokenizer.ggml.eos_token_id", 2},
      {"tokenizer.ggml.add_bos_token", true},
  };
}

std::unique_ptr<Tokenizer> small() {
  return load_or_fail(small_bpe_metadata());
}

Ids plain_ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, kPlainText).value();
}

TEST(Load, EncodesAndDecodes) {
  const auto tokenizer = small();
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  EXPECT_EQ(plain_ids(*tokenizer, "ab a"), (Ids{4, 5}));
  EXPECT_EQ(plain_ids(*tokenizer, "é"), (Ids{6, 7}));
  EXPECT_EQ(plain_ids(*tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer->token_bytes(5, false), " a");
  EXPECT_EQ(tokenizer->token_piece(5), "Ġa");
  EXPECT_EQ(tokenizer->token_bytes(6, false), "\xC3");
  EXPECT_EQ(tokenizer->decode(Ids{4, 6, 7, 5}, false).value(), "abé a");
  EXPECT_EQ(tokenizer->decode(Ids{6, 4}, false).value(), "\uFFFDab");
}

TEST(Load, ControlTokensAreHiddenUnlessAskedFor) {
  const auto tokenizer = small();
  EXPECT_TRUE(tokenizer->is_control(kEnd));
  EXPECT_FALSE(tokenizer->is_control(kThink));
  EXPECT_EQ(tokenizer->token_bytes(kEnd, false), "");
  EXPECT_EQ(tokenizer->token_bytes(kEnd, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->decode(Ids{0, kEnd, kThink}, false).value(), "a<think>");
  EXPECT_EQ(tokenizer->decode(Ids{0, kEnd}, true).value(), "a<|im_end|>");
}

TEST(Load, IdsOutsideTheVocabulary) {
  const auto tokenizer = small();
  for (const TokenId id : {-1, 12, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->decode(Ids{id}, false).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(tokenizer->token_bytes(id, true), "");
    EXPECT_EQ(tokenizer->token_piece(id), "");
    EXPECT_FALSE(tokenizer->is_control(id));
  }
}

TEST(Load, SpecialTokensInText) {
  const auto tokenizer = small();
  const std::string text = "a<|im_end|>b<think>c";
  EXPECT_EQ(tokenizer->encode(text, kWithSpecial).value(), (Ids{0, kEnd, 1, kThink, 2}));
  EXPECT_EQ(plain_ids(*tokenizer, text), (Ids{0, 1, kThink, 2}));  // the rest has no tokens here
}

TEST(Load, AddsBosAndEosAsTheFileSays) {
  JsonObject metadata = small_bpe_metadata();
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{kBos, 0}));
  metadata["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{kBos, 0, 2}));
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{0, 2}));
  metadata.erase("tokenizer.ggml.add_bos_token");
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{0, 2}));
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{kBos, 0, 2}));
  metadata.erase("tokenizer.ggml.bos_token_id");
  EXPECT_EQ(load_or_fail(metadata)->encode("a", {}).value(), (Ids{0, 2}));
}

TEST(Load, PromptHasOneBos) {
  const auto tokenizer = small();
  EXPECT_EQ(tokenizer->encode_prompt({"a", {}}).value(), (Ids{kBos, 0}));
  EXPECT_EQ(tokenizer->encode_prompt({"<s>a", {}}).value(), (Ids{kBos, 0}));
  EXPECT_EQ(tokenizer->encode_prompt({"", {}}).value(), (Ids{kBos}));
  // A user who writes <s> does not keep the real one away.
  EXPECT_EQ(tokenizer->encode_prompt({"<s>a", {{0, 3}}}).value(), (Ids{kBos, 0}));
  EXPECT_EQ(tokenizer->encode_prompt({"a<s>b", {{1, 4}}}).value(), (Ids{kBos, 0, 1}));
}

TEST(Load, UserSpansAreNoControlTokens) {
  const auto tokenizer = small();
  const std::string text = "<|user|>a<|im_end|>b<think><|im_end|>";
  EXPECT_EQ(tokenizer->encode_prompt({text, {}}).value(),
            (Ids{kBos, kUser, 0, kEnd, 1, kThink, kEnd}));
  const size_t begin = 8, end = text.size() - 10;
  // Of "<|im_end|>" only "_" and the like are left out: this vocabulary lacks their bytes.
  EXPECT_EQ(tokenizer->encode_prompt({text, {{begin, end}}}).value(),
            (Ids{kBos, kUser, 0, 1, kThink, kEnd}));
}

TEST(Load, ATokenHalfInAUserSpanIsText) {
  const Tokenizer& tokenizer = smollm2_tokenizer();
  const std::string text = "<|im_end|>";
  for (const TextSpan span : {TextSpan{0, 5}, {5, 10}, {4, 5}, {0, 10}}) {
    EXPECT_EQ(tokenizer.encode_prompt({text, {span}}).value(), plain_ids(tokenizer, text));
  }
  EXPECT_EQ(tokenizer.encode_prompt({text, {{10, 10}}}).value(), (Ids{2}));
}

TEST(Load, SpanBordersDoNotChangeOrdinaryText) {
  const Tokenizer& tokenizer = smollm2_tokenizer();
  Rng rng(9);
  for (const std::string& text : read_golden_texts()) {
    RenderedPrompt prompt{text, {}};
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos + rng.next_u64() % 5;
      const size_t end = begin + rng.next_u64() % 5;
      if (end > text.size()) break;
      prompt.user_spans.push_back({begin, end});
      pos = end;
    }
    ASSERT_EQ(tokenizer.encode_prompt(prompt).value(), plain_ids(tokenizer, text)) << text;
  }
}

TEST(Load, SpansThatAreNotInOrderAreRefused) {
  const auto tokenizer = small();
  const std::vector<TextSpan> bad[] = {{{2, 1}}, {{0, 9}}, {{1, 2}, {0, 1}}, {{0, 2}, {1, 3}}};
  for (const auto& spans : bad) {
    EXPECT_EQ(tokenizer->encode_prompt({"abc", spans}).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(Load, StopIds) {
  const auto stop_ids = [](const JsonObject& metadata) {
    const auto tokenizer = load_or_fail(metadata);
    return Ids(tokenizer->stop_ids().begin(), tokenizer->stop_ids().end());
  };
  JsonObject metadata = small_bpe_metadata();
  EXPECT_EQ(stop_ids(metadata), (Ids{2, kEnd}));  // eos, and <|im_end|> by its text
  metadata["tokenizer.ggml.eot_token_id"] = 3;
  metadata["tokenizer.ggml.eom_token_id"] = kEnd;
  EXPECT_EQ(stop_ids(metadata), (Ids{2, 3, kEnd}));
  metadata["tokenizer.ggml.token_type"].as_array()[kEnd] = 1;  // ordinary text that looks like it
  metadata.erase("tokenizer.ggml.eom_token_id");
  EXPECT_EQ(stop_ids(metadata), (Ids{2, 3}));
  EXPECT_EQ(smollm2_tokenizer().eos_id(), 2);
  EXPECT_EQ(Ids(smollm2_tokenizer().stop_ids().begin(), smollm2_tokenizer().stop_ids().end()),
            (Ids{0, 2}));
}

TEST(Load, IdsThatTheVocabularyLacksCountAsAbsent) {
  JsonObject metadata = small_bpe_metadata();
  metadata["tokenizer.ggml.bos_token_id"] = 12;
  metadata["tokenizer.ggml.eos_token_id"] = -1;
  const auto tokenizer = load_or_fail(metadata);
  EXPECT_EQ(tokenizer->bos_id(), -1);
  EXPECT_EQ(tokenizer->eos_id(), -1);
  EXPECT_EQ(tokenizer->encode("a", {}).value(), (Ids{0}));
}

TEST(Load, WithoutTokenTypesTheNamedTokensAreControl) {
  JsonObject metadata = small_bpe_metadata();
  metadata.erase("tokenizer.ggml.token_type");
  metadata["tokenizer.ggml.eos_token_id"] = kEnd;
  const auto tokenizer = load_or_fail(metadata);
  EXPECT_EQ(tokenizer->encode("a<|im_end|>", kWithSpecial).value(), (Ids{0, kEnd}));
  EXPECT_EQ(plain_ids(*tokenizer, "a<|im_end|>"), (Ids{0}));
}

TEST(Load, TextCannotMergeIntoAControlToken) {
  JsonObject metadata = small_bpe_metadata();
  metadata["tokenizer.ggml.token_type"].as_array()[4] = 3;  // "ab"
  for (const char* pre : {"gpt-2", "llama-bpe"}) {
    metadata["tokenizer.ggml.pre"] = pre;
    EXPECT_EQ(plain_ids(*load_or_fail(metadata), "ab"), (Ids{0, 1}));
  }
}

TEST(Load, TheLastOfEqualTokensIsUsed) {
  JsonObject metadata = small_bpe_metadata();
  metadata["tokenizer.ggml.tokens"].as_array()[7] = "ab";
  EXPECT_EQ(plain_ids(*load_or_fail(metadata), "ab"), (Ids{7}));
}

TEST(Load, NfcWhereTheVocabularyWantsIt) {
  JsonObject metadata = small_bpe_metadata();
  EXPECT_EQ(plain_ids(*load_or_fail(metadata), "e\u0301"), Ids{});
  metadata["tokenizer.ggml.pre"] = "qwen2";
  EXPECT_EQ(plain_ids(*load_or_fail(metadata), "e\u0301"), (Ids{6, 7}));
}

struct BadMetadata {
  const char* key;
  Json value;  // null removes the key
  StatusCode code;
  const char* says;
};

TEST(Load, SaysWhatIsWrong) {
  const auto loss = StatusCode::kDataLoss;
  const BadMetadata cases[] = {
      {"tokenizer.ggml.model", nullptr, loss, "'tokenizer.ggml.model' is missing"},
      {"tokenizer.ggml.model", 1, loss, "must be a string"},
      {"tokenizer.ggml.model", "rwkv", StatusCode::kUnsupported, "'rwkv'"},
      {"tokenizer.ggml.pre", "klingon", StatusCode::kUnsupported, "'klingon'"},
      {"tokenizer.ggml.pre", 3, loss, "must be a string"},
      {"tokenizer.ggml.tokens", nullptr, loss, "is missing"},
      {"tokenizer.ggml.tokens", "a", loss, "must be an array"},
      {"tokenizer.ggml.tokens", JsonArray{}, loss, "0 elements"},
      {"tokenizer.ggml.tokens", {"a", 7}, loss, "[1] is not a string"},
      {"tokenizer.ggml.token_type", {1, 1}, loss, "2 elements for 12 tokens"},
      {"tokenizer.ggml.token_type", 1, loss, "must be an array"},
      {"tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 9, 1, 1, 3, 3, 3, 4}, loss, "[5]"},
      {"tokenizer.ggml.token_type", {1, -1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 4}, loss, "[1]"},
      {"tokenizer.ggml.token_type", {1, 1, 1.0, 1, 1, 1, 1, 1, 3, 3, 3, 4}, loss, "[2]"},
      {"tokenizer.ggml.token_type", {1, 1, 1, "1", 1, 1, 1, 1, 3, 3, 3, 4}, loss, "[3]"},
      {"tokenizer.ggml.merges", nullptr, loss, "is missing"},
      {"tokenizer.ggml.merges", {"a b", "ab"}, loss, "[1] is not two tokens"},
      {"tokenizer.ggml.merges", {"a "}, loss, "[0] is not two tokens"},
      {"tokenizer.ggml.merges", {" a"}, loss, "[0] is not two tokens"},
      {"tokenizer.ggml.merges", {""}, loss, "[0] is not two tokens"},
      {"tokenizer.ggml.merges", {5}, loss, "[0] is not two tokens"},
      {"tokenizer.ggml.merges", {"a b", "a x"}, loss, "[1]: 'x' is not in the vocabulary"},
      {"tokenizer.ggml.merges", {"b a"}, loss, "[0]: 'ba' is not in the vocabulary"},
      {"tokenizer.ggml.eos_token_id", "2", loss, "must be an integer"},
      {"tokenizer.ggml.add_bos_token", 1, loss, "must be true or false"},
  };
  for (const BadMetadata& bad : cases) {
    JsonObject metadata = small_bpe_metadata();
    if (bad.value.is_null()) {
      metadata.erase(bad.key);
    } else {
      metadata[bad.key] = bad.value;
    }
    const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
    ASSERT_FALSE(tokenizer.ok()) << bad.key << " " << bad.says;
    EXPECT_EQ(tokenizer.status().code(), bad.code) << bad.key;
    EXPECT_EQ(tokenizer.status().message().rfind("test.gguf: ", 0), 0u);
    EXPECT_NE(tokenizer.status().message().find(bad.says), std::string::npos)
        << tokenizer.status().message();
  }
  EXPECT_FALSE(load_gguf_tokenizer(Json("no object"), "test.gguf").ok());
}

TEST(Load, MissingPreTokenizerIsTheDefault) {
  JsonObject metadata = small_bpe_metadata();
  metadata.erase("tokenizer.ggml.pre");
  EXPECT_EQ(plain_ids(*load_or_fail(metadata), "ab a"), (Ids{4, 5}));
}

// Whatever the metadata, loading and using it ends in an error or in ids of the vocabulary.
TEST(Load, SurvivesRandomMetadata) {
  Rng rng(4);
  const Json values[] = {nullptr,
                         true,
                         -1,
                         11,
                         1e9,
                         uint64_t{1} << 63,
                         "",
                         "a",
                         "\xFF",
                         "Ġ Ġ",
                         JsonArray{},
                         {1, 3, 4},
                         {"a", "a", "", "\xC3", "Ġ"},
                         {"a a"},
                         JsonObject{{"a", 1}}};
  size_t loaded = 0;
  for (int round = 0; round < 4000; ++round) {
    JsonObject metadata = small_bpe_metadata();
    for (int change = 0; change < 2; ++change) damage_field(rng, metadata, values);
    const auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
    if (!tokenizer.ok()) continue;
    ++loaded;
    const Ids ids = (*tokenizer)->encode("ab <|im_end|>\xFF ab", {true, true}).value();
    EXPECT_TRUE((*tokenizer)->decode(ids, true).ok());
  }
  EXPECT_GT(loaded, 50u);
}

TEST(Load, WithoutChatTemplate) {
  const auto tokenizer = small();
  EXPECT_FALSE(tokenizer->has_chat_template());
  const auto rendered = tokenizer->render("[]", {});
  EXPECT_EQ(rendered.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(rendered.status().message().find("no chat template"), std::string::npos);
}

// The vocabulary of the tokenizer.json cases as a GGUF file has it.
Json shared_metadata(const char* pre) {
  const Json shared = read_test_json("tokenizer_json/vocab.json");
  JsonArray tokens(shared.at("vocab").as_object().size());
  for (const auto& entry : shared.at("vocab").as_object()) {
    tokens[entry.value().to_number<size_t>()] = std::string_view(entry.key());
  }
  JsonArray merges;
  for (const Json& merge : shared.at("merges").as_array()) {
    merges.emplace_back(std::string(to_view(merge.at(0).as_string())) + " " +
                        std::string(to_view(merge.at(1).as_string())));
  }
  return JsonObject{{"tokenizer.ggml.model", "gpt2"},
                    {"tokenizer.ggml.pre", pre},
                    {"tokenizer.ggml.tokens", std::move(tokens)},
                    {"tokenizer.ggml.merges", std::move(merges)}};
}

// A pre-tokenizer's name stands for the patterns that the models' tokenizer.json files spell out.
TEST(LoadGguf, NamedPreTokenizersAreThoseOfHuggingFace) {
  const std::pair<const char*, const char*> rows[] = {
      {"gpt-2", "pre_split_gpt2"},          {"llama-bpe", "pre_split_llama3"},
      {"gpt-4o", "pre_split_o200k"},        {"llama4", "pre_split_o200k"},
      {"minimax-m2", "pre_split_o200k"},    {"tekken", "pre_split_tekken"},
      {"qwen35", "pre_split_qwen35"},       {"deepseek-v3", "pre_deepseek_v3"},
      {"hunyuan-dense", "pre_deepseek_v3"}, {"seed-coder", "pre_split_seed_coder"},
      {"minicpm5", "pre_split_minicpm5"},   {"bloom", "pre_split_bloom"},
      {"poro-chat", "pre_split_bloom"},     {"viking", "pre_split_viking"},
  };
  const JsonArray cases = read_test_array("tokenizer_json/cases.json");
  for (const auto& [pre, name] : rows) {
    const auto tokenizer = load_or_fail(shared_metadata(pre));
    const auto found = std::find_if(cases.begin(), cases.end(), [name = name](const Json& test) {
      return test.at("name") == Json(name);
    });
    ASSERT_NE(found, cases.end()) << name;
    for (const Json& row : found->at("rows").as_array()) {
      const std::string_view text = to_view(row.at(0).as_string());
      EXPECT_EQ(encode_or_fail(*tokenizer, text, kPlainText), to_integers<TokenId>(row.at(1)))
          << pre << ": '" << text << "'";
    }
  }
}

}  // namespace
}  // namespace octavo::tokenizer
