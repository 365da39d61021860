// SentencePiece models against the ids that sentencepiece gives, and what may be wrong with one.
#include "tokenizer/spm_file.h"

#include "base/rng.h"
#include "test_data.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

constexpr const char* kSource = "m/tokenizer.model";

Result<std::unique_ptr<Tokenizer>> load_spm(std::string_view file, const Json* config = nullptr) {
  return load_spm_tokenizer(
      file, {.tokenizer_config = config, .tokenizer_config_path = "m/tokenizer_config.json"},
      kSource);
}

std::unique_ptr<Tokenizer> load_test_model(const std::string& name, const Json* config = nullptr) {
  auto tokenizer = load_spm(read_test_data("spm/" + name + ".model"), config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

// sentencepiece shows control tokens nowhere, and so does plain text here.
TEST(SpmFile, IdsAreThoseOfSentencePiece) {
  size_t rows = 0;
  const Json cases = read_test_json("spm/cases.json");
  for (const auto& entry : cases.as_object()) {
    const std::string name(entry.key());
    const auto tokenizer = load_test_model(name);
    for (const Json& row : entry.value().as_array()) {
      const std::string_view text = to_view(row.at(0).as_string());
      EXPECT_EQ(encode_or_fail(*tokenizer, text, kPlainText), to_integers<TokenId>(row.at(1)))
          << name << ": '" << text << "'";
      ++rows;
    }
  }
  EXPECT_GE(rows, 600u);
}

TEST(SpmFile, DecodesWhatItEncodes) {
  const auto tokenizer = load_test_model("bpe_bytes");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  for (const char* text : {"hello  world", "日本語 🦙\n\t", " x", "<s>", "a\u0301"}) {
    const Ids ids = encode_or_fail(*tokenizer, text, {.add_special = true, .parse_special = false});
    EXPECT_EQ(ids.front(), 1);
    EXPECT_EQ(tokenizer->decode(ids, false).value(), text);
  }
}

TEST(SpmFile, TheConfigAddsTokens) {
  const std::string size = std::to_string(load_test_model("bpe_bytes")->vocab_size());
  const Json config = parse_json(R"({
    "add_bos_token": false, "add_eos_token": true, "eos_token": "<|end|>",
    "chat_template": "{{ messages[0].content }}{{ eos_token }}",
    "added_tokens_decoder": {
      "0": {"content": "<unk>", "special": true}, "2": {"content": "</s>", "special": true},
      ")" + size + R"(": {"content": "<|end|>", "special": true}}})",
                                 "config")
                          .value();
  const auto tokenizer = load_test_model("bpe_bytes", &config);
  const auto end = static_cast<TokenId>(std::stol(size));
  EXPECT_EQ(tokenizer->eos_id(), end);
  EXPECT_EQ(tokenizer->encode("the", {}).value().back(), end);
  const auto prompt = tokenizer->render(R"([{"role": "user", "content": "<|end|>"}])", {});
  const Ids ids = tokenizer->encode_prompt(prompt.value()).value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
}

TEST(SpmFile, SaysWhatIsWrongWithTheConfig) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"added_tokens_decoder": []})", "'added_tokens_decoder' must be an object"},
      {R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "'x' is no id"},
      {R"({"added_tokens_decoder": {"-1": {"content": "a"}}})", "'-1' is no id"},
      {R"({"added_tokens_decoder": {"99999999999": {"content": "a"}}})", "is no id"},
      {R"({"added_tokens_decoder": {"1": {}}})", "'content' is missing"},
      {R"({"added_tokens_decoder": {"1": {"content": "a"}}})", "token 1 is '<s>', not 'a'"},
      {R"({"added_tokens_decoder": {"9000": {"content": "a"}}})", "token 9000 follows"},
  };
  for (const auto& [text, says] : rows) {
    const Json config = parse_json(text, "config").value();
    const auto tokenizer = load_spm(read_test_data("spm/bpe.model"), &config);
    ASSERT_FALSE(tokenizer.ok()) << text;
    const std::string& message = tokenizer.status().message();
    EXPECT_TRUE(message.starts_with("m/tokenizer_config.json: ")) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }
}

TEST(SpmFile, SaysWhatIsWrongWithTheFile) {
  using namespace std::string_literals;
  const std::string piece = "\x0A\x08\x0A\x01\x61\x15\x00\x00\x80\xBF"s;  // "a", -1
  ASSERT_TRUE(load_spm(piece).ok()) << load_spm(piece).status().message();
  const std::pair<std::string, const char*> rows[] = {
      {"", "holds no pieces"},
      {"\x12\x00"s, "holds no pieces"},
      {"\x0A", "the model is no valid protobuf"},
      {"\x0A\x7F", "the model is no valid protobuf"},
      {"\x0B", "the model is no valid protobuf"},       // a group
      {"\x00\x01"s, "the model is no valid protobuf"},  // field 0
      {std::string(11, '\xFF'), "the model is no valid protobuf"},
      {"{\"model\": {}}", "the model is no valid protobuf"},
      {"\x0A\x01\x0A", "piece 0 is no valid protobuf"},
      {"\x0A\x00"s, "piece 0 is empty"},
      {piece + "\x0A\x02\x0A\x00"s, "piece 1 is empty"},
      {"\x0A\x08\x0A\x01\x61\x15\x00\x00\x80\x7F"s, "piece 0: no finite score"},
      {"\x0A\x08\x0A\x01\x61\x15\x00\x00\xC0\x7F"s, "piece 0: no finite score"},
      {"\x0A\x05\x0A\x01\x61\x18\x09", "piece 0 has the type 9"},
      {"\x0A\x05\x0A\x01\x61\x18\x00"s, "piece 0 has the type 0"},
      {piece + "\x12\x02\x18\x03", "model_type 3 is neither Unigram nor BPE"},
      {piece + "\x12\x01\x18", "trainer_spec is no valid protobuf"},
      {piece + "\x1A\x02\x28\x00"s, "escape_whitespaces is false"},
      {piece + "\x1A\x04\x12\x02zz", "precompiled_charsmap: a character map of 2 bytes"},
      {piece + "\x1A\x01\x10", "normalizer_spec is no valid protobuf"},
  };
  for (const auto& [file, says] : rows) {
    const auto tokenizer = load_spm(file);
    ASSERT_FALSE(tokenizer.ok()) << says;
    const std::string& message = tokenizer.status().message();
    EXPECT_TRUE(message.starts_with("m/tokenizer.model: ")) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message << " lacks " << says;
  }
}

TEST(SpmFile, SurvivesTruncationAndMutation) {
  const std::string whole = read_test_data("spm/unigram.model");
  Rng rng(9);
  for (int round = 0; round < 400; ++round) {
    std::string file =
        whole.substr(0, rng.next_u64() % 4 == 0 ? rng.next_u64() % whole.size() : whole.size());
    for (uint64_t n = rng.next_u64() % 6; n > 0 && !file.empty(); --n) {
      file[rng.next_u64() % file.size()] = static_cast<char>(rng.next_u64());
    }
    const auto tokenizer = load_spm(file);
    if (!tokenizer.ok()) continue;
    for (const char* text : {"hello ﬁ \xFF①world…", "\t  ABC e\u0301 日本"}) {
      for (const TokenId id : encode_or_fail(**tokenizer, text, kWithSpecial)) {
        ASSERT_LT(id, (*tokenizer)->vocab_size());
      }
    }
  }
}

}  // namespace
}  // namespace octavo::tokenizer
