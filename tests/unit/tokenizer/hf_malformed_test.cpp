// What may be wrong with a tokenizer.json: each error names the file and the key.
#include "hf_test_util.h"

namespace octavo::tokenizer {
namespace {

// A path of keys and indices, what is put there (nothing: it is removed), and the error.
struct BadEntry {
  std::vector<const char*> path;
  const char* value;
  StatusCode code;
  const char* says;
};

void expect_refused(const BadEntry& bad, Json json = small_file()) {
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
  const BadEntry cases[] = {
      {{"model"}, "", kLoss, "'model' is missing"},
      {{"model"}, "7", kLoss, "'model.vocab' is missing"},
      {{"model", "type"}, "", kLoss, "'type' is missing"},
      {{"model", "type"}, R"("WordLevel")", kCannot, "'WordLevel'"},
      {{"model", "type"}, R"("WordPiece")", kCannot, "'WordPiece' with the pre-tokenizer"},
      {{"model", "vocab"}, "", kLoss, "'model.vocab' is missing"},
      {{"model", "vocab"}, "5", kLoss, "'model.vocab' must be an object or an array"},
      {{"model", "vocab"}, "[]", kLoss, "'model.vocab' is empty"},
      {{"model", "vocab"}, R"([["a"]])", kLoss, "'model.vocab'[0] is not a piece and a score"},
      {{"model", "vocab"}, R"([["a", 0], [1, 0]])", kLoss, "'model.vocab'[1]"},
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
      {{"model", "unk_token"}, R"("zz")", kLoss, "'unk_token' is 'zz'"},
      {{"model", "unk_token"}, "0", kLoss, "'unk_token' must be a string"},
      {{"model", "fuse_unk"}, "0", kLoss, "'fuse_unk' must be true or false"},
      {{"model", "dropout"}, R"("0")", kLoss, "'dropout'"},
  };
  for (const BadEntry& bad : cases) expect_refused(bad);
  EXPECT_EQ(load(Json(1)).status().code(), kLoss);
  EXPECT_EQ(load(JsonArray{}).status().code(), kLoss);
}

TEST(HfTokenizer, SaysWhatIsWrongAroundTheModel) {
  const char* const split = "pretokenizers";
  const BadEntry cases[] = {
      {{"added_tokens"}, "3", kLoss, "'added_tokens' must be an array"},
      {{"added_tokens", "1"}, "3", kLoss, "'added_tokens'[1]: 'id' is missing"},
      {{"added_tokens", "1", "id"}, "-3", kLoss, "'added_tokens'[1]: 'id' is -3"},
      {{"added_tokens", "1", "id"}, "6", kLoss, "'<s>' and '<|end|>' both have the id 6"},
      {{"added_tokens", "1", "id"}, "900000", kLoss, "'<|end|>' has the id 900000"},
      {{"added_tokens", "1", "content"}, "", kLoss, "'added_tokens'[1]: 'content'"},
      {{"added_tokens", "1", "rstrip"}, "1", kLoss, "'added_tokens'[1]: 'rstrip' must be"},
      {{"normalizer", "type"}, R"("Nmt")", kCannot, "'normalizer': 'Nmt'"},
      {{"normalizer", "type"}, R"("BertNormalizer")", kLoss, "'lowercase' is missing"},
      {{"normalizer"},
       R"({"type": "BertNormalizer", "lowercase": true, "clean_text": 1})",
       kLoss,
       "'clean_text' must be"},
      {{"normalizer"},
       R"({"type": "BertNormalizer", "lowercase": true, "clean_text": true,
           "handle_chinese_chars": true, "strip_accents": "no"})",
       kLoss,
       "'strip_accents' must be"},
      {{"normalizer", "type"}, R"("Precompiled")", kLoss, "'precompiled_charsmap' is missing"},
      {{"normalizer"}, R"({"type": "Replace", "content": ""})", kLoss, "'pattern' is missing"},
      {{"normalizer"}, R"({"type": "Strip", "strip_left": true})", kLoss, "'strip_right'"},
      {{"normalizer"}, R"({"type": "Sequence"})", kLoss, "'normalizers' is missing"},
      {{"normalizer"}, R"({"type": "Prepend"})", kLoss, "'prepend' is missing"},
      {{"pre_tokenizer", "type"}, R"("UnicodeScripts")", kCannot, "'UnicodeScripts'"},
      {{"pre_tokenizer", split}, "", kLoss, "'pretokenizers' is missing"},
      {{"pre_tokenizer", split, "0"},
       R"({"type": "Metaspace", "replacement": "_"})",
       kCannot,
       "'ByteLevel' after 'Metaspace'"},
      {{"pre_tokenizer", split, "0", "type"}, R"("ByteLevel")", kLoss, "'add_prefix_space'"},
      {{"pre_tokenizer", split, "0", "behavior"}, R"("Removes")", kCannot, "'Removes'"},
      {{"pre_tokenizer", split, "0", "invert"}, "1", kLoss, "'invert' must be"},
      {{"pre_tokenizer", split, "0", "pattern"}, "{}", kLoss, "'Regex' is missing"},
      {{"pre_tokenizer", split, "0", "pattern"}, R"({"String": ""})", kLoss, "'String' is empty"},
      {{"pre_tokenizer", split, "0", "pattern", "Regex"}, R"("a(b")", kLoss, "'a(b'"},
      {{"pre_tokenizer", split, "0", "pattern", "Regex"}, R"("[a&&b]")", kCannot, "'&&'"},
      {{"post_processor", "type"}, R"("Pairs")", kCannot, "'post_processor': 'Pairs'"},
      {{"post_processor", "type"}, R"("BertProcessing")", kLoss, "'cls' is missing"},
      {{"post_processor"}, R"({"type": "BertProcessing", "cls": ["a"]})", kLoss, "'cls' is no"},
      {{"post_processor"},
       R"({"type": "RobertaProcessing", "cls": ["a", 0], "sep": ["b", 9]})",
       kLoss,
       "'sep' is no token"},
      {{"post_processor", "single"}, "", kLoss, "'single' is missing"},
      {{"post_processor", "single"}, "[]", kLoss, "0 texts"},
      {{"post_processor", "single", "0"}, "7", kLoss, "neither 'SpecialToken' nor 'Sequence'"},
      {{"post_processor", "special_tokens"}, "", kLoss, "'special_tokens' lacks '<s>'"},
      {{"post_processor", "special_tokens", "<s>", "ids"}, "[9]", kLoss, "'ids' of '<s>'"},
      {{"decoder", "type"}, R"("CTC")", kCannot, "'decoder': 'CTC'"},
      {{"decoder", "type"}, R"("WordPiece")", kLoss, "'prefix' is missing"},
  };
  for (const BadEntry& bad : cases) expect_refused(bad);
}

// What only vocabularies that spell text have.
TEST(HfTokenizer, SaysWhatIsWrongWithSpelledVocabularies) {
  const auto normalizer = [](const std::string& charsmap) {
    return R"({"type": "Precompiled", "precompiled_charsmap": ")" + charsmap + R"("})";
  };
  const std::string no_base64 = normalizer("AA=A");
  const std::string short_map = normalizer("AAA=");
  const std::string empty_trie = normalizer("AAAAAA==");
  const std::string long_trie = normalizer("CAAAAAAAAAA=");
  const std::string odd_trie = normalizer("AwAAAAAAAAA=");
  // A trie of one unit, and a text of more than 256 bytes.
  const std::string long_text = normalizer("BAAAAAAAAAAA" + std::string(400, 'Y'));
  const char* const strip = R"({"type": "Strip", "content": " ", "start": 2, "stop": 0})";
  const char* const regex = R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})";
  const BadEntry cases[] = {
      {{"model", "type"}, R"("Unigram")", kLoss, "'vocab' must be an array"},
      {{"model"}, R"({"type": "BPE", "vocab": [["a", 0]], "merges": 1})", kLoss, "'merges'"},
      {{"model"}, R"({"type": "Unigram", "vocab": [["a", "x"]]})", kLoss, "'vocab'[0]: the score"},
      {{"model"}, R"({"type": "Unigram", "vocab": [["a", null]]})", kLoss, "'vocab'[0]: the score"},
      {{"model"},
       R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1})",
       kLoss,
       "'unk_id' is 1"},
      {{"model"}, R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": -1})", kLoss, "'unk_id'"},
      {{"model"}, R"({"type": "Unigram", "vocab": [["a", 0]], "unk_id": "a"})", kLoss, "'unk_id'"},
      {{"model"},
       R"({"type": "Unigram", "vocab": [["a", 0]], "byte_fallback": 1})",
       kLoss,
       "'byte_fallback'"},
      {{"normalizer"}, no_base64.c_str(), kLoss, "'precompiled_charsmap' is not Base64"},
      {{"normalizer"}, short_map.c_str(), kLoss, "2 bytes cannot hold a trie"},
      {{"normalizer"}, empty_trie.c_str(), kLoss, "cannot hold a trie of 0"},
      {{"normalizer"}, long_trie.c_str(), kLoss, "8 bytes cannot hold a trie of 8"},
      {{"normalizer"}, odd_trie.c_str(), kLoss, "cannot hold a trie of 3"},
      {{"normalizer"}, long_text.c_str(), kLoss, "a replacement of 300 bytes, more than the 256"},
      {{"pre_tokenizer"}, R"({"type": "Metaspace"})", kLoss, "'replacement' is missing"},
      {{"pre_tokenizer"}, R"({"type": "Metaspace", "replacement": "ab"})", kLoss, "is 'ab'"},
      {{"pre_tokenizer"}, R"({"type": "Metaspace", "replacement": ""})", kLoss, "is ''"},
      {{"pre_tokenizer"},
       R"({"type": "Metaspace", "replacement": "_", "split": 1})",
       kLoss,
       "'split' must be"},
      {{"pre_tokenizer"},
       R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       kCannot,
       "'prepend_scheme' is 'last'"},
      {{"decoder"}, strip, kCannot, "'decoder': 'Strip' of 2 ' '"},
      {{"decoder"}, regex, kCannot, "'decoder': 'Replace' with a 'Regex'"},
      {{"decoder"}, R"({"type": "Replace", "content": ""})", kLoss, "'pattern' is missing"},
      {{"decoder"},
       R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"},
        {"type": "ByteFallback"}]})",
       kCannot,
       "'ByteLevel' beside"},
      {{"decoder"}, R"({"type": "Sequence"})", kLoss, "'decoders' is missing"},
  };
  Json base = small_file();
  base.as_object()["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}};
  base.as_object()["decoder"] = base.at("pre_tokenizer");
  ASSERT_TRUE(load(base).ok());
  for (const BadEntry& bad : cases) expect_refused(bad, base);
}

TEST(HfTokenizer, SaysWhatIsWrongWithWordPieces) {
  const BadEntry cases[] = {
      {{"model", "type"}, R"("WordPiece")", kLoss, "'continuing_subword_prefix' is missing"},
      {{"model"},
       R"({"type": "WordPiece", "vocab": {"a": 0}, "continuing_subword_prefix": "#",
           "max_input_chars_per_word": 0})",
       kLoss,
       "'max_input_chars_per_word' is 0"},
      {{"model"},
       R"({"type": "WordPiece", "vocab": {"a": 0}, "continuing_subword_prefix": "#",
           "max_input_chars_per_word": 9})",
       kLoss,
       "'unk_token' is missing"},
      {{"decoder"},
       R"({"type": "Sequence", "decoders": [{"type": "WordPiece", "prefix": "#",
           "cleanup": true}, {"type": "ByteFallback"}]})",
       kCannot,
       "'WordPiece' beside"},
  };
  Json base = small_file();
  base.as_object()["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  base.as_object()["decoder"] = nullptr;
  ASSERT_TRUE(load(base).ok());
  for (const BadEntry& bad : cases) expect_refused(bad, base);
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
  EXPECT_NE(tokenizer->render("[]", {}).status().message().find("m/tokenizer_config.json: "),
            std::string::npos);
}

}  // namespace
}  // namespace octavo::tokenizer
