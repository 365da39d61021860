// What the commands say of trouble: output that cannot be written, weights and templates at fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::tiny_model;

TEST(CliOutput, WhatCannotBeWrittenIsAnError) {
  const std::string model = tiny_model();
  const std::string vocabulary = OCTAVO_TEST_DATA "/vocabs/ggml-vocab-gpt-2.gguf";
  const std::string run = "run " + model + " --token-ids 1,2 --max-tokens 3";
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), std::string("run --help"),
        std::string("doctor"), "inspect " + model, "tokenize " + vocabulary + " hi",
        "detokenize " + vocabulary + " 5", run, run + " --json",
        "bench latency " + model + " --input-len 4 --output-len 2 --num-iters 1"}) {
    SCOPED_TRACE(arguments);
    expect_failure(octavo(arguments, "", "", ">/dev/full"), 1, "standard output: No space left");
    expect_failure(octavo(arguments, "", "", ">&-"), 1, "standard output: Bad file descriptor");
  }
}

TEST(CliOutput, NanLogitsNameTheFile) {
  const std::string model = tiny_model();
  // The last tensor, 64 float32 values, is the norm before the embedding is used as LM head.
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(model));
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size - 64 * 4);
  file << std::string(64 * 4, '\xFF');
  file.close();
  for (const char* flags : {"", " --temperature 1 --top-k 3", " --repetition-penalty 2"}) {
    expect_failure(octavo("run " + model + " --token-ids 1" + flags), 1,
                   model + ": the model's logits hold NaN");
  }
  expect_failure(octavo("bench latency " + model + " --input-len 4 --output-len 2"), 1,
                 model + ": the model's logits hold NaN");
}

TEST(CliOutput, ABrokenTemplateIsReportedOnce) {
  const std::string folder = testing::temp_path("model");
  std::filesystem::create_directories(folder);
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(std::string(OCTAVO_TEST_DATA "/goldens/llama3_gqa/") + name, folder);
  }
  std::ofstream(folder + "/tokenizer.json") << R"({
    "added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "a": 2, "b": 3}, "merges": []}})";
  std::ofstream(folder + "/chat_template.jinja") << "{% if %}";
  const auto run = octavo("run " + folder + " hi");
  expect_failure(run, 1, folder);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_NE(run.err.find(":1:"), std::string::npos) << run.err;  // line and column
  const auto raw = octavo("run " + folder + " hi --raw --max-tokens 1");
  EXPECT_EQ(raw.exit_code, 0);
  EXPECT_EQ(raw.err, "");
}

}  // namespace
}  // namespace octavo
