// Values of flags that no command may accept.
#include <gtest/gtest.h>

#include "cli/run_octavo.h"

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

}  // namespace
}  // namespace octavo
