// docs/models.md lists what `tokenizer.ggml.pre` may hold: the test writes the list from the tables
// and compares. Where it fails, its message is the text to put into the page.
#include "test_data.h"
#include "tokenizer/pre_tokenizer.h"

namespace octavo::tokenizer {
namespace {

TEST(PreTokenizersDoc, ListsTheTables) {
  std::string expected;
  for (const std::string_view name : pre_tokenizer_names()) {
    expected += (expected.empty() ? "`" : ", `") + std::string(name) + "`";
  }
  std::string page = read_test_data("../../docs/models.md");
  std::replace(page.begin(), page.end(), '\n', ' ');
  EXPECT_NE(page.find(": " + expected + "."), std::string::npos) << "lacks:\n" << expected;
}

}  // namespace
}  // namespace octavo::tokenizer
