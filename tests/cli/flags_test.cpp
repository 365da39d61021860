// Values of flags that no command may accept.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;

TEST(CliFlags, EmptyValuesAreUsageErrors) {
  for (const std::string flag :
       {"--max-tokens", "--temperature", "--top-k", "--seed", "--logprobs", "--threads", "--stop",
        "--system", "--backend", "--token-ids", "--logit-bias", "--stop-token-ids"}) {
    expect_failure(octavo("run m.gguf hi " + flag + " ''"), 2, flag + ": the value is empty");
    expect_failure(octavo("run m.gguf hi " + flag + "="), 2, flag + ": the value is empty");
  }
  // The word behind is not the value.
  expect_failure(octavo("run m.gguf hi --max-tokens= 5"), 2, "--max-tokens: the value is empty");
  expect_failure(octavo("run m.gguf hi --max_tokens="), 2, "--max-tokens: the value is empty");
}

TEST(CliFlags, NumbersOutOfRangeAreUsageErrors) {
  const struct {
    const char* flag;
    const char* value;
  } cases[] = {
      {"--max-tokens", "9223372036854775808"},
      {"--max-tokens", "-9223372036854775809"},
      {"--min-tokens", "99999999999999999999999"},
      {"--max-model-len", "9223372036854775808"},
      {"--threads", "2147483648"},
      {"--top-k", "2147483648"},
      {"--logprobs", "-2147483649"},
      {"--seed", "18446744073709551616"},
      {"--temperature", "1e39"},
  };
  for (const auto& c : cases) {
    expect_failure(octavo(std::string("run m.gguf hi ") + c.flag + " " + c.value), 2,
                   std::string(c.flag) + ": " + c.value + " is out of range");
  }
  for (const char* id : {"2147483648", "-2147483649"}) {
    expect_failure(octavo(std::string("run m.gguf --token-ids 1,") + id), 2, id);
  }
}

TEST(CliFlags, NumbersWithMoreBehindAreUsageErrors) {
  for (const char* value : {"5x", "5.0", "0x10", "1,000", "five", "' 5'", "-"}) {
    expect_failure(octavo(std::string("run m.gguf hi --max-tokens ") + value), 2, "not an integer");
  }
  expect_failure(octavo("run m.gguf hi --seed -1"), 2, "not an integer of 0 or more");
  expect_failure(octavo("run m.gguf hi --temperature 0,5"), 2, "not a number");
}

// The limits themselves are values: what fails then is the file.
TEST(CliFlags, TheLargestValuesAreAccepted) {
  expect_failure(octavo("run no.gguf hi --max-tokens 9223372036854775807"), 1, "no.gguf");
  expect_failure(octavo("run no.gguf hi --seed 18446744073709551615"), 1, "no.gguf");
  expect_failure(octavo("run no.gguf hi --temperature=1.5e0 --top-k -1"), 1, "no.gguf");
}

TEST(CliFlags, LogprobsNeedJson) {
  expect_failure(octavo("run m.gguf hi --logprobs 3"), 2, "--json");
  expect_failure(octavo("run m.gguf hi --prompt-logprobs 0"), 2, "--json");
  const auto run = octavo("run " + testing::tiny_model() +
                          " --token-ids 1,2 --max-tokens 2 --logprobs 1 --json");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("\"logprobs\""), std::string::npos);
}

// Runs a benchmark of one request with a configuration file, and returns its figures.
Json figures_with(const std::string& config_text) {
  const std::string config = testing::temp_path("config.yaml");
  const std::string figures = testing::temp_path("figures.json");
  std::ofstream(config) << config_text;
  const auto run = octavo("bench throughput " + testing::tiny_model() + " --config " + config +
                          " --num-prompts 1 --input-len 9 --output-len 1 --output-json " + figures);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return parse_json(testing::read_file(figures), "figures").value();
}

TEST(CliFlags, ConfigFilesHaveKeysFlatAndNested) {
  for (const std::string text : {"max-num-seqs: 5\nblock-size: 8\n", "max_num_seqs: 5\n",
                                 "model_config:\n  max_num_seqs: 5\n  block_size: 8\n",
                                 "model_config: {attention_backend: paged, max_num_seqs: 5, "
                                 "enable_kv_cache_quantization: false}\n",
                                 "model_config: {max_num_seqs: 7}\nmax-num-seqs: 5\n"}) {
    EXPECT_EQ(json_int(figures_with(text), "max_num_seqs", "figures").value(), 5) << text;
  }
}

TEST(CliFlags, ConfigFilesChooseTheTypeOfCachedKeysAndValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"model_config: {enable_kv_cache_quantization: true}\n", "int8"},
      {"kv_cache_dtype: int8\nenable_kv_cache_quantization: false\n", "int8"},
      {"kv-cache-dtype: float16\n", "float16"},
  };
  for (const auto& [text, dtype] : cases) {
    EXPECT_EQ(json_string(figures_with(text), "kv_cache_dtype", "figures").value(), dtype) << text;
  }
}

TEST(CliFlags, ConfigFilesThatAreWrongAreErrorsThatNameTheKey) {
  const struct {
    const char* text;
    int exit_code;
    const char* part;
  } cases[] = {
      {"max_num_sequs: 5\n", 2, "did you mean --max-num-seqs?"},
      {"model_config: {blok_size: 5}\n", 2, "key blok_size"},
      {"model_config: {blok_size: 5}\n", 2, "did you mean --block-size?"},
      {"model_config: 5\n", 2, "model_config must hold"},
      {"model_config: {max_num_seqs: many}\n", 2, "--max-num-seqs many"},
      {"model_config: {max_num_seqs: [1, 2]}\n", 2, "max_num_seqs takes one value"},
      {"model_config: {enable_kv_cache_quantization: 1}\n", 2, "must be true or false"},
      {"kv-cache-dtype: int4\n", 1, "kv_cache_dtype 'int4' is not known"},
      {"num-gpu-blocks-override: 3\nkv-cache-memory-bytes: 1G\n", 1, "both set the size"},
      {"max_paged_cache_size: -1\n", 1, "max_paged_cache_size is -1"},
      {"admission_factor: 0.5\n", 1, "admission_factor is 0.5"},
  };
  const std::string model = testing::tiny_model();
  for (const auto& c : cases) {
    const std::string config = testing::temp_path("config.yaml");
    std::ofstream(config) << c.text;
    expect_failure(octavo("bench throughput " + model + " --config " + config), c.exit_code,
                   c.part);
  }
  // A file that is also the server's.
  const std::string config = testing::temp_path("config.yaml");
  std::ofstream(config) << "port: 8000\nmax-num-queued-reqs: 5\n";
  const auto run = octavo("bench throughput " + model + " --config " + config +
                          " --num-prompts 1 --input-len 9 --output-len 1");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("port has no effect"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("max-num-queued-reqs has no effect"), std::string::npos) << run.err;
}

TEST(CliFlags, ThePageTableIsPrintedWhereItIsAskedFor) {
  const std::string model = testing::tiny_model();
  // 20 tokens of prompt and 14 of the answer's 15: what is sampled last is never written.
  const auto run = octavo("run " + model +
                          " --token-ids 5,6,7,8,9,5,6,7,8,9,5,6,7,8,9,5,6,7,8,9 --max-tokens 15 "
                          "--ignore-eos --debug-page-table");
  EXPECT_EQ(run.exit_code, 0);
  std::istringstream lines(run.err);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "  page     block  references");
  std::set<int64_t> blocks;
  int64_t page = 0, block = 0, references = 0, count = 0;
  while (lines >> page >> block >> references) {
    EXPECT_EQ(page, count++);
    EXPECT_GE(block, 0);
    EXPECT_EQ(references, 1);
    blocks.insert(block);
  }
  EXPECT_EQ(count, 3);  // pages of 16 tokens
  EXPECT_EQ(blocks.size(), 3U);
  expect_failure(octavo("run " + model + " --debug-page-table"), 2, "need a prompt");
}

// Two kinds of layers, two of each.
TEST(CliFlags, ThePageTableOfMixedLayersNamesTheirGroups) {
  const auto run = octavo("run " OCTAVO_TEST_DATA
                          "/goldens/gemma2 --token-ids 5,6,7,8,9,5,6,7,8,9,5,6,7,8,9,5,6,7,8,9 "
                          "--max-tokens 2 --ignore-eos --debug-page-table");
  EXPECT_EQ(run.exit_code, 0);
  const size_t header = run.err.find("  page  group     block  references\n");
  ASSERT_NE(header, std::string::npos) << run.err;
  std::istringstream lines(run.err.substr(header));
  std::string line;
  std::getline(lines, line);
  int64_t page = 0, group = 0, block = 0, references = 0, count = 0;
  std::set<int64_t> blocks;
  for (; lines >> page >> group >> block >> references; ++count) {
    EXPECT_EQ(page, count / 2);
    EXPECT_EQ(group, count % 2);
    blocks.insert(block);
  }
  EXPECT_EQ(count, 4);  // 2 pages of 16 tokens
  EXPECT_EQ(blocks.size(), 4U);
}

}  // namespace
}  // namespace octavo
