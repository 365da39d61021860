// The tokenizer of a model folder: which files are read, and what a missing one means.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "octavo/model.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "special": true},
                   {"id": 4, "content": "<end>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
})";

// A model folder without a tokenizer, and files to put into it.
class TokenizerFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::temp_path("model");
    fs::create_directories(folder_);
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy(fs::path(OCTAVO_TEST_DATA "/goldens/llama3_gqa") / name, folder_ + "/" + name);
    }
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::unique_ptr<Tokenizer> load() const {
    auto tokenizer = load_tokenizer(folder_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return std::move(tokenizer).value();
  }

  std::string folder_;
};

TEST_F(TokenizerFiles, WithoutOneTheModelRunsByTokenIds) {
  const auto tokenizer = load_tokenizer(folder_);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
  EXPECT_NE(tokenizer.status().message().find(folder_ + "/tokenizer.json"), std::string::npos);
  EXPECT_TRUE(Model::load(folder_, {}).ok());
}

TEST_F(TokenizerFiles, WithoutOneTheConfiguredEndTokensCount) {
  Request request;
  request.prompt_token_ids = {5, 17, 3};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 8;
  request.sampling.ignore_eos = true;
  const auto all = Model::load(folder_, {}).value()->generate(request, nullptr).value().token_ids;
  ASSERT_EQ(all.size(), 8u);
  const std::string end = std::to_string(all[3]);
  for (const std::string& ids : {end, "[" + end + "]", "[-1, " + end + ", 1000000]"}) {
    write("generation_config.json", "{\"eos_token_id\": " + ids + "}");
    request.sampling.ignore_eos = false;
    const auto model = Model::load(folder_, {}).value();
    const auto stopped = model->generate(request, nullptr).value();
    EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
    EXPECT_EQ(stopped.stop_reason, "token " + end);
    EXPECT_LE(stopped.token_ids.size(), 4u);
    request.sampling.ignore_eos = true;
    EXPECT_EQ(model->generate(request, nullptr)->token_ids, all);
  }
  write("generation_config.json", R"({"eos_token_id": "4"})");
  const auto broken = Model::load(folder_, {});
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.status().message().find("generation_config.json: 'eos_token_id'"),
            std::string::npos);
}

TEST_F(TokenizerFiles, EndTokensOfAllConfigsCount) {
  write("tokenizer.json", kTokenizer);
  write("generation_config.json", R"({"eos_token_id": [4, 0]})");
  write("config.json", R"({"eos_token_id": 1})");
  write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  const auto tokenizer = load();
  const auto stops = tokenizer->stop_ids();
  EXPECT_EQ(std::vector<TokenId>(stops.begin(), stops.end()), (std::vector<TokenId>{0, 1, 4}));
  EXPECT_EQ(tokenizer->encode("abb", {}).value(), (std::vector<TokenId>{3, 2, 1}));

  write("generation_config.json", R"({"eos_token_id": ["4"]})");
  const auto broken = load_tokenizer(folder_);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.status().message().find("generation_config.json: 'eos_token_id'"),
            std::string::npos);
}

TEST_F(TokenizerFiles, TheChatTemplateMayBeAFile) {
  write("tokenizer.json", kTokenizer);
  EXPECT_FALSE(load()->has_chat_template());
  write("tokenizer_config.json", R"({"chat_template": "of the config"})");
  EXPECT_EQ(load()->render("[]", {}).value().text, "of the config");
  write("chat_template.jinja", "of the file");
  EXPECT_EQ(load()->render("[]", {}).value().text, "of the file");
  write("chat_template.jinja", "{% of the file");
  const auto broken = load()->render("[]", {});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().message().rfind(folder_ + "/chat_template.jinja: ", 0), 0u)
      << broken.status().message();
}

TEST_F(TokenizerFiles, TokenizerModelCountsWhereNothingElseIs) {
  fs::copy(OCTAVO_TEST_DATA "/spm/bpe.model", folder_ + "/tokenizer.model");
  EXPECT_EQ(load()->token_piece(1), "<s>");
  write("tokenizer.model", "IQ== 0\n");
  const auto tiktoken = load_tokenizer(folder_ + "/tokenizer.model");
  ASSERT_FALSE(tiktoken.ok());
  EXPECT_EQ(tiktoken.status().message().rfind(folder_ + "/tokenizer.model: ", 0), 0u);
  write("tokenizer.json", kTokenizer);
  EXPECT_EQ(load()->token_piece(1), "b");
}

TEST_F(TokenizerFiles, BrokenFilesAreNamed) {
  for (const char* text : {"", "{", "[]", R"({"model": {"type": "BPE"}})"}) {
    write("tokenizer.json", text);
    const auto tokenizer = load_tokenizer(folder_);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(tokenizer.status().message().rfind(folder_ + "/tokenizer.json: ", 0), 0u);
  }
}

}  // namespace
}  // namespace octavo
