#include "tokenizer/unicode.h"

#include "test_data.h"

namespace octavo::tokenizer {
namespace {

TEST(Unicode, ClassesOfEveryAssignedCodePoint) {
  size_t compared = 0;
  for (const Json& range : read_test_array("tokenizer/unicode_classes.json")) {
    const auto values = to_integers<uint32_t>(range);
    for (char32_t c = values[0]; c <= values[1]; ++c, ++compared) {
      std::string text;
      utf8_append(text, c);
      const TextChar found = char_at(text, 0);
      ASSERT_EQ(found.code_point, c);
      ASSERT_EQ(found.size_bytes, text.size());
      ASSERT_EQ(found.classes, values[2]) << "U+" << std::hex << static_cast<uint32_t>(c);
    }
  }
  EXPECT_GT(compared, 280'000u);
}

TEST(Unicode, InvalidBytesHaveNoClass) {
  for (const std::string bytes : {"\xFF", "\x80", "\xC3", "\xE2\x82", "\xED"}) {
    EXPECT_EQ(char_at(bytes, 0).classes, 0);
    EXPECT_EQ(char_at(bytes, 0).size_bytes, bytes.size());
  }
}

TEST(Unicode, NfcOfEveryGoldenText) {
  std::vector<std::string> expected = read_golden_texts();
  const std::vector<std::string> texts = expected;
  for (const Json& change : read_test_array("tokenizer/nfc.json")) {
    expected[change.at(0).to_number<size_t>()] = to_view(change.at(1).as_string());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string storage;
    ASSERT_EQ(to_nfc(texts[i], storage), expected[i]) << texts[i];
  }
}

TEST(Unicode, NfcKeepsInvalidBytesAsBarriers) {
  std::string storage;
  EXPECT_EQ(to_nfc("e\u0301\xFF"
                   "e\xCC\x81\xCC",
                   storage),
            "\u00E9\xFF\u00E9\xCC");
  EXPECT_EQ(to_nfc("e\xFF\u0301", storage), "e\xFF\u0301");
  EXPECT_EQ(to_nfc("", storage), "");
}

TEST(Unicode, NfcIsFastOnRunsOfMarks) {
  // Two classes in turn: the worst case for ordering by swapping neighbours.
  expect_linear("\u0301\u0316", [](const std::string& text) {
    std::string storage;
    EXPECT_FALSE(to_nfc(text, storage).empty());
  });
}

}  // namespace
}  // namespace octavo::tokenizer
