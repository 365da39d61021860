// What the end-to-end tests in tests/hub cannot reach: headers in all their forms.
#include "hub/protocol.h"

#include <gtest/gtest.h>

#include "hub/http.h"

namespace octavo::hub {
namespace {

const Subject kSubject{"o/n", "main", "f.gguf"};

HttpResponse with_headers(std::map<std::string, std::string> headers) {
  HttpResponse response;
  response.status = 200;
  response.headers = std::move(headers);
  return response;
}

TEST(Protocol, FileInfo) {
  const auto plain =
      parse_file_info(with_headers({{"etag", "W/\"abc\""}, {"content-length", "7"}}), kSubject);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain.value().etag, "abc");
  EXPECT_EQ(plain.value().size_bytes, 7);
  const auto linked = parse_file_info(with_headers({{"etag", "\"x\""},
                                                    {"content-length", "7"},
                                                    {"x-linked-etag", "\"def\""},
                                                    {"x-linked-size", "99999999999"}}),
                                      kSubject);
  ASSERT_TRUE(linked.ok());
  EXPECT_EQ(linked.value().etag, "def");
  EXPECT_EQ(linked.value().size_bytes, 99999999999);
}

TEST(Protocol, SizesThatAreNone) {
  for (const char* size : {"", "-1", "x", "1x", "99999999999999999999", " 1", "4398046511105",
                           "9223372036854775807"}) {
    EXPECT_FALSE(
        parse_file_info(with_headers({{"etag", "\"a\""}, {"content-length", size}}), kSubject).ok())
        << size;
  }
}

TEST(Protocol, Urls) {
  EXPECT_EQ(file_url("https://h", {"o/n", "refs/pr/1", "a b/c.gguf"}),
            "https://h/o/n/resolve/refs%2Fpr%2F1/a%20b/c.gguf");
  EXPECT_EQ(repo_info_url("https://h", {"o/n", "v 1", ""}),
            "https://h/api/models/o/n/revision/v%201");
}

TEST(Protocol, Origins) {
  EXPECT_EQ(url_origin("https://h/x"), url_origin("https://h:443/y?z"));
  EXPECT_NE(url_origin("https://h/x"), url_origin("http://h/x"));
  EXPECT_NE(url_origin("https://h/x"), url_origin("https://h:444/x"));
  EXPECT_NE(url_origin("https://h/x"), url_origin("https://h.evil/x"));
  EXPECT_NE(url_origin("https://h/x"), url_origin("https://h@evil/x"));
  EXPECT_EQ(url_origin("nonsense://"), "");
}

}  // namespace
}  // namespace octavo::hub
