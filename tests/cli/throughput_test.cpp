// `octavo bench throughput`: figures that must be exact, and flags that are wrong.
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;
using testing::read_file;
using testing::temp_path;
using testing::tiny_model;

Json measure(const std::string& flags) {
  const std::string path = temp_path("figures.json");
  const Outcome run =
      octavo("bench throughput " + tiny_model() + " " + flags + " --output-json " + path);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.rfind("Throughput: ", 0), 0U) << run.out;
  return parse_json(read_file(path), "figures").value();
}

int64_t count(const Json& figures, const char* key) {
  return json_int(figures, key, "figures").value();
}

TEST(BenchThroughput, CountsWhatWasAskedFor) {
  const Json figures = measure("--num-prompts 7 --input-len 30 --output-len 5 --n 2");
  EXPECT_EQ(count(figures, "num_requests"), 7);
  EXPECT_EQ(count(figures, "num_prompt_tokens"), 7 * 30);
  EXPECT_EQ(count(figures, "num_output_tokens"), 7 * 2 * 5);
  EXPECT_EQ(count(figures, "prefix_cache_queries"), 7 * 30);
  EXPECT_GE(count(figures, "num_steps"), 5);
  const double elapsed = json_double(figures, "elapsed_time", "figures").value();
  EXPECT_NEAR(json_double(figures, "tokens_per_second", "figures").value() * elapsed, 280, 1e-6);
  const double steps = json_double(figures, "forward_s", "figures").value() +
                       json_double(figures, "other_s", "figures").value();
  EXPECT_GT(json_double(figures, "forward_s", "figures").value(), 0);
  EXPECT_LE(steps, elapsed);
}

// One at a time, so that each finds what the first has computed.
TEST(BenchThroughput, ASharedPrefixIsComputedOnce) {
  const std::string flags =
      "--num-prompts 10 --input-len 3 --prefix-len 160 --output-len 2 --max-num-seqs 1 ";
  EXPECT_EQ(count(measure(flags), "prefix_cache_hits"), 9 * 160);
  EXPECT_EQ(count(measure(flags + "--no-enable-prefix-caching"), "prefix_cache_hits"), 0);
}

TEST(BenchThroughput, LengthsOfATrace) {
  const std::string csv = temp_path("trace.csv");
  std::ofstream(csv) << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                        "2023-11-16 18:17:03.9799600,40,10\n"
                        "2023-11-16 18:17:04.0319600,31,8\n"
                        "2023-11-16 18:17:04.1319600,4000,8\n"  // longer than the context
                        "2023-11-16 18:17:05.0781490,11,2\n";
  const std::string flags = "--dataset-name trace --dataset-path " + csv;
  const Json all = measure(flags);
  EXPECT_EQ(count(all, "num_requests"), 3);
  EXPECT_EQ(count(all, "num_prompt_tokens"), 40 + 31 + 11);
  EXPECT_EQ(count(all, "num_output_tokens"), 10 + 8 + 2);
  EXPECT_EQ(count(measure(flags + " --num-prompts 2 --output-len 1"), "num_output_tokens"), 2);

  const std::string lines = temp_path("trace.jsonl");
  std::ofstream(lines)
      << R"({"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [5, 6]})"
         "\n"
      << R"({"timestamp": 9, "input_length": 520, "output_length": 3, "hash_ids": [5, 7]})"
         "\n";
  const Json shared = measure("--max-num-seqs 1 --dataset-name trace --dataset-path " + lines);
  EXPECT_EQ(count(shared, "prefix_cache_hits"), 512);  // the block with the same id
}

TEST(BenchThroughput, WrongFlagsAreNamed) {
  const std::string bench = "bench throughput m.gguf ";
  expect_failure(octavo(bench + "--num-prompts 0"), 2, "--num-prompts is 0");
  expect_failure(octavo(bench + "--input-len -3"), 2, "--input-len");
  expect_failure(octavo(bench + "--dataset-name sharegpt"), 2, "random or trace, not 'sharegpt'");
  expect_failure(octavo(bench + "--dataset-name trace"), 2, "needs --dataset-path");
  expect_failure(octavo(bench + "--inputs-len 3"), 2, "did you mean --input-len?");
  expect_failure(octavo("bench throughput"), 2, "MODEL is missing");
  expect_failure(octavo("bench speed m.gguf"), 2,
                 "latency, kernels, serve and throughput, not 'speed'");
  const std::string loaded = "bench throughput " + tiny_model();
  expect_failure(octavo(loaded + " --input-len 1024", "", "OCTAVO_LOG=warning"), 1,
                 "1152 tokens (--prefix-len, --input-len and --output-len), the context only 1024");
  expect_failure(octavo(loaded + " --dataset-name trace --dataset-path /nonexistent/trace", "",
                        "OCTAVO_LOG=warning"),
                 1, "/nonexistent/trace");
}

}  // namespace
}  // namespace octavo
