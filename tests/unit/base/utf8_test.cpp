#include "base/utf8.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(Utf8, DecodesEveryLength) {
  const std::string text = "aé€😀";
  const char32_t expected[] = {U'a', U'é', U'€', U'😀'};
  size_t offset = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Utf8Char c = utf8_decode(text, offset);
    EXPECT_TRUE(c.valid);
    EXPECT_EQ(c.code_point, expected[i]);
    EXPECT_EQ(c.size_bytes, i + 1);
    offset += c.size_bytes;
  }
}

TEST(Utf8, RefusesOverlongSurrogateAndTooLarge) {
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
                          "\xF5\x80\x80\x80"}) {
    EXPECT_FALSE(utf8_is_valid(bad)) << bad;
  }
}

TEST(Utf8, ReplacesMaximalSubparts) {
  // As Python's bytes.decode(errors="replace").
  EXPECT_EQ(utf8_replace_invalid("a\xE2\x82z"), "a\uFFFDz");
  EXPECT_EQ(utf8_replace_invalid("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(utf8_replace_invalid("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, PrintableTextSteersNoTerminal) {
  EXPECT_EQ(printable("a é 😀 \\x1b"), "a é 😀 \\x1b");
  EXPECT_EQ(printable("a\x1B[2J\r\n\x7F"), "a\\x1b[2J\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable("\u0080\u009B31m\u009F\u00A0"), "\\x80\\x9b31m\\x9f\u00A0");
  EXPECT_EQ(printable("a\xFF\x9B"), "a\uFFFD\uFFFD");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Utf8, IncompleteSuffix) {
  EXPECT_EQ(utf8_incomplete_suffix(""), 0u);
  EXPECT_EQ(utf8_incomplete_suffix("abc"), 0u);
  EXPECT_EQ(utf8_incomplete_suffix("ab\xE2\x82"), 2u);
  EXPECT_EQ(utf8_incomplete_suffix("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(utf8_incomplete_suffix("\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(utf8_incomplete_suffix("\x80\x80\x80"), 0u);
  EXPECT_EQ(utf8_incomplete_suffix("\xE0\x80"), 0u);  // can never become valid
}

TEST(Utf8, AppendRoundTrips) {
  for (char32_t c : {U'\0', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\uFFFF', U'\U0010FFFF'}) {
    std::string text;
    utf8_append(text, c);
    EXPECT_EQ(utf8_decode(text, 0).code_point, c);
    EXPECT_EQ(utf8_decode(text, 0).size_bytes, text.size());
  }
}

}  // namespace
}  // namespace octavo
