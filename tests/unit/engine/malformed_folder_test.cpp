// What may be wrong with the JSON files of a model folder: each error names the file and the key.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "octavo/model.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGoodTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
})";
constexpr const char* kGoodTokenizerConfig = R"({
  "bos_token": "<s>", "eos_token": {"content": "<s>"}, "add_bos_token": true,
  "chat_template": "{{ messages }}"
})";

// A model folder that loads, and what is changed in it.
class MalformedFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::temp_path("model");
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const fs::path source = OCTAVO_TEST_DATA "/goldens/llama3_gqa";
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
      fs::copy(source / name, folder_ + "/" + name);
    }
    write("tokenizer.json", kGoodTokenizer);
    write("tokenizer_config.json", kGoodTokenizerConfig);
    ASSERT_TRUE(load_tokenizer(folder_).ok()) << load_tokenizer(folder_).status().message();
    ASSERT_TRUE(Model::load(folder_, {}).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  struct Row {
    const char* file;
    const char* pointer;  // a JSON pointer; "": the whole file is replaced
    const char* value;    // nothing: what lies there is removed
    const char* says;
  };
  void expect_refused(const Row& row) const {
    const std::string good = read(row.file);
    if (*row.pointer == '\0') {
      write(row.file, row.value);
    } else {
      Json json = parse_json(good, row.file).value();
      const std::string_view pointer = row.pointer;
      const size_t last = pointer.rfind('/');
      boost::system::error_code error;
      JsonObject& parent = json.find_pointer(pointer.substr(0, last), error)->as_object();
      parent.erase(pointer.substr(last + 1));
      if (*row.value != '\0') {
        parent[pointer.substr(last + 1)] = parse_json(row.value, "value").value();
      }
      write(row.file, dump_json(json));
    }
    const Status status = std::string_view(row.file) == "config.json"
                              ? Model::load(folder_, {}).status()
                              : load_tokenizer(folder_).status();
    write(row.file, good);
    const std::string where = folder_ + "/" + row.file + ": ";
    EXPECT_FALSE(status.ok()) << row.file << row.pointer << " = " << row.value;
    EXPECT_TRUE(status.message().starts_with(where)) << status.message();
    EXPECT_NE(status.message().find(row.says, where.size()), std::string::npos)
        << status.message() << " lacks " << row.says;
  }

  std::string folder_;
};

TEST_F(MalformedFolder, ConfigJson) {
  const char* const file = "config.json";
  const Row rows[] = {
      {file, "", "", "JSON"},
      {file, "", "{", "JSON"},
      {file, "", "[]", "object"},
      {file, "", "null", "object"},
      {file, "", "{\"a\": 1} {", "JSON"},
      {file, "", "{\"a\": \xFF}", "JSON"},
      {file, "/architectures", "", "'architectures' is missing"},
      {file, "/architectures", "\"LlamaForCausalLM\"", "'architectures' must be an array"},
      {file, "/architectures", "[]", "architecture"},
      {file, "/architectures", "[7]", "architecture"},
      {file, "/architectures", "[\"NoSuchForCausalLM\"]", "NoSuchForCausalLM"},
      {file, "/num_hidden_layers", "", "'num_hidden_layers' is missing"},
      {file, "/num_hidden_layers", "0", "num_hidden_layers"},
      {file, "/num_hidden_layers", "-2", "num_hidden_layers"},
      {file, "/num_hidden_layers", "2.5", "'num_hidden_layers'"},
      {file, "/num_hidden_layers", "\"2\"", "'num_hidden_layers'"},
      {file, "/num_hidden_layers", "1e30", "'num_hidden_layers'"},
      {file, "/hidden_size", "", "'hidden_size' is missing"},
      {file, "/hidden_size", "0", "hidden_size"},
      {file, "/hidden_size", "18446744073709551615", "'hidden_size'"},
      {file, "/intermediate_size", "true", "'intermediate_size'"},
      {file, "/intermediate_size", "-1", "intermediate_size"},
      {file, "/num_attention_heads", "", "'num_attention_heads' is missing"},
      {file, "/num_attention_heads", "0", "num_attention_heads"},
      {file, "/num_key_value_heads", "3", "num_key_value_heads"},
      {file, "/num_key_value_heads", "[2]", "'num_key_value_heads'"},
      {file, "/head_dim", "0", "head_dim"},
      {file, "/head_dim", "\"16\"", "'head_dim'"},
      {file, "/vocab_size", "", "'vocab_size' is missing"},
      {file, "/vocab_size", "0", "vocab_size"},
      {file, "/max_position_embeddings", "", "'max_position_embeddings' is missing"},
      {file, "/max_position_embeddings", "0", "max_position_embeddings"},
      {file, "/rms_norm_eps", "", "'rms_norm_eps' is missing"},
      {file, "/rms_norm_eps", "0", "'rms_norm_eps' is 0"},
      {file, "/rms_norm_eps", "\"tiny\"", "'rms_norm_eps'"},
      {file, "/tie_word_embeddings", "1", "'tie_word_embeddings' must be true or false"},
      {file, "/hidden_act", "\"relu7\"", "'hidden_act' is 'relu7'"},
      {file, "/hidden_act", "1", "'hidden_act'"},
      {file, "/rope_theta", "-1", "'rope_theta' is -1"},
      {file, "/rope_scaling", "3", "rope_scaling must be an object"},
      {file, "/rope_scaling/rope_type", "\"spiral\"", "'spiral'"},
      {file, "/rope_scaling/factor", "", "'factor' is missing"},
      {file, "/rope_scaling/factor", "0", "'factor' is 0"},
      {file, "/rope_scaling/low_freq_factor", "", "'low_freq_factor' is missing"},
      {file, "/rope_scaling/high_freq_factor", "null", "'high_freq_factor' is missing"},
      {file, "/rope_scaling/twist", "1", "'twist' is not known"},
  };
  for (const Row& row : rows) expect_refused(row);
}

TEST_F(MalformedFolder, TokenizerFiles) {
  const char* const tokenizer = "tokenizer.json";
  const char* const config = "tokenizer_config.json";
  const char* const generation = "generation_config.json";
  const Row rows[] = {
      {tokenizer, "", "", "JSON"},
      {tokenizer, "", "{", "JSON"},
      {tokenizer, "", "[]", "object"},
      {tokenizer, "", "{\"model\": {}} x", "JSON"},
      {tokenizer, "/model", "", "'model' is missing"},
      {tokenizer, "/model/vocab", "null", "'model.vocab' is missing"},
      {tokenizer, "/model/type", "\"WordPiece\"", "'WordPiece'"},
      {tokenizer, "/pre_tokenizer/type", "\"Scissors\"", "'Scissors'"},
      {tokenizer, "/pre_tokenizer/add_prefix_space", "", "'add_prefix_space' is missing"},
      {tokenizer, "/added_tokens", "{}", "'added_tokens' must be an array"},
      {config, "", "", "JSON"},
      {config, "", "[]", "object"},
      {config, "", "null", "object"},
      {config, "/bos_token", "1", "'bos_token' must be a string"},
      {config, "/bos_token", "[]", "'bos_token' must be a string"},
      {config, "/eos_token", "{}", "'content' is missing"},
      {config, "/eos_token/content", "7", "'content' must be a string"},
      {config, "/add_bos_token", "\"yes\"", "'add_bos_token' must be true or false"},
      {config, "/add_eos_token", "0", "'add_eos_token' must be true or false"},
      {generation, "", "", "JSON"},
      {generation, "", "[]", "object"},
      {generation, "/eos_token_id", "\"2\"", "'eos_token_id'"},
      {generation, "/eos_token_id", "2.5", "'eos_token_id'"},
      {generation, "/eos_token_id", "[2, \"3\"]", "'eos_token_id'"},
      {generation, "/eos_token_id", "[[2]]", "'eos_token_id'"},
      {generation, "/eos_token_id", "{}", "'eos_token_id'"},
      {generation, "/eos_token_id", "18446744073709551615", "'eos_token_id'"},
  };
  for (const Row& row : rows) expect_refused(row);
}

// A template that cannot be used is no reason to refuse the tokenizer: rendering says what it is.
TEST_F(MalformedFolder, ChatTemplates) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"chat_template": 7})", "'chat_template' must be a string"},
      {R"({"chat_template": "{% if %}"})", "chat template:1:"},
      {R"({"chat_template": []})", "'chat_template' has none of the name 'default'"},
      {R"({"chat_template": [7]})", "'name'"},
      {R"({"chat_template": [{"template": ""}]})", "'name' is missing"},
      {R"({"chat_template": [{"name": "default"}]})", "'template' is missing"},
      {"{}", "no chat template"},
  };
  for (const auto& [text, says] : rows) {
    write("tokenizer_config.json", text);
    const auto tokenizer = load_tokenizer(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    const Status status = (*tokenizer)->render("[]", {}).status();
    EXPECT_TRUE(status.message().starts_with(folder_ + "/tokenizer_config.json: "))
        << status.message();
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace octavo
