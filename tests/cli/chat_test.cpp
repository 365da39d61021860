// The chat, with lines from a pipe. Needs the model: scripts/fetch_model.sh fetches it.
#include <gtest/gtest.h>

#include "cli/run_octavo.h"

namespace octavo {
namespace {

using testing::octavo;

TEST(CliChat, AFullContextNamesReset) {
  const auto cut = octavo("run smollm2 --max-model-len 60", "Tell me a long story.\n");
  EXPECT_EQ(cut.exit_code, 0);
  EXPECT_NE(cut.err.find("the context is full; /reset"), std::string::npos) << cut.err;
  const auto again = octavo("run smollm2 --max-model-len 60 --max-tokens 2",
                            std::string(300, 'a') + "\n/reset\nhi\n");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("error: the prompt has"), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("the context is full; /reset"), std::string::npos) << again.err;
  EXPECT_NE(again.out, "");  // the last question fits
  const auto short_answer = octavo("run smollm2 --max-tokens 2", "hi\n");
  EXPECT_NE(short_answer.err.find("--max-tokens"), std::string::npos) << short_answer.err;
  EXPECT_EQ(short_answer.err.find("/reset"), std::string::npos) << short_answer.err;
}

// Searching the whole of what was read for each new piece takes minutes here.
TEST(CliChat, LongLinesAndManyLinesTakeLinearTime) {
  const std::string many(2'000'000, '\n');
  const std::string huge = "/system " + std::string(size_t{100} << 20, 'x') + "\n";
  const auto chat = octavo("run smollm2", many + huge + "/nope\n", "timeout 60");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_EQ(chat.err, "octavo: /nope is not a command; /help lists them\n");
}

TEST(CliChat, ALongCommandIsShownInPart) {
  const auto chat = octavo("run smollm2", "/" + std::string(100'000, 'x') + "\n");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_LT(chat.err.size(), 200u);
}

TEST(CliChat, OutputThatCannotBeWrittenEndsIt) {
  for (const char* line : {"hi\n", "/help\n"}) {
    const auto chat = octavo("run smollm2 --max-tokens 3", line, "", ">/dev/full");
    testing::expect_failure(chat, 1, "standard output: No space left");
  }
}

}  // namespace
}  // namespace octavo
