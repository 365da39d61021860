#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/format.h"
#include "base/rng.h"

namespace octavo::server {
namespace {

// Feeds `text` in pieces of `step` bytes, as a connection does. The status of an error, or 0.
int feed(RequestParser& parser, const std::string& text, size_t step) {
  std::string pending;
  for (size_t i = 0; i < text.size() && !parser.done(); i += step) {
    pending += text.substr(i, step);
    const auto used = parser.feed(pending);
    if (!used.ok()) return parser.error_status();
    pending.erase(0, *used);
  }
  return 0;
}

const char kChunked[] =
    "POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nX-Request-ID: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\n\r\n";

TEST(RequestParser, TheSameHoweverTheBytesCome) {
  for (const size_t step : {1, 2, 3, 7, 64, 1000}) {
    RequestParser parser({});
    ASSERT_EQ(feed(parser, kChunked, step), 0);
    ASSERT_TRUE(parser.done()) << step;
    const HttpRequest request = parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x");
    EXPECT_EQ(request.query, "a=b");
    EXPECT_EQ(request.body, "abc0123456789");
    EXPECT_TRUE(request.keep_alive);
    ASSERT_NE(find_header(request.headers, "x-request-id"), nullptr);
    EXPECT_EQ(*find_header(request.headers, "x-request-id"), "7");
  }
}

TEST(RequestParser, WholeAddressesAreTheirPaths) {
  for (const auto& [target, path] : {std::pair{"/a?b=c", "/a"},
                                     {"http://h:80/a?b=c", "/a"},
                                     {"HTTPS://h/a?b=c", "/a"},
                                     {"http://h", "/"},
                                     {"http://h?b=c", "/"},
                                     {"http://h?a=/v1/models&b=c", "/"},
                                     {"http://", "/"},
                                     {"http:/a?b=c", "http:/a"},
                                     {"/http://h/a", "/http://h/a"},
                                     {"*", "*"}}) {
    RequestParser parser({});
    ASSERT_EQ(feed(parser, format("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", target), 1000), 0);
    const HttpRequest request = parser.take();
    EXPECT_EQ(request.path, path) << target;
    const std::string_view whole = target;
    const size_t question = whole.find('?');
    EXPECT_EQ(request.query, question == whole.npos ? "" : whole.substr(question + 1)) << target;
  }
}

TEST(RequestParser, LeavesTheNextRequest) {
  const std::string one = "GET /a HTTP/1.1\r\n\r\n";
  RequestParser parser({});
  const auto used = parser.feed(one + "GET /b HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(used.ok());
  EXPECT_EQ(*used, one.size());
}

TEST(RequestParser, LimitsHaveTheirStatus) {
  const RequestLimits limits{.header_bytes = 256, .body_bytes = 10};
  RequestParser body(limits);
  EXPECT_EQ(feed(body, "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", 1000), 413);
  RequestParser chunks(limits);
  EXPECT_EQ(feed(chunks,
                 "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n", 1000),
            413);
  RequestParser header(limits);
  EXPECT_EQ(feed(header, "GET / HTTP/1.1\r\nX: " + std::string(300, 'x') + "\r\n\r\n", 1000), 431);
  RequestParser fits(limits);
  EXPECT_EQ(feed(fits, "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", 1000), 0);
  EXPECT_TRUE(fits.done());
}

TEST(RequestParser, RefusesWhatTwoServersCouldReadDifferently) {
  for (const char* text :
       {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n"}) {
    RequestParser parser({});
    // Where it is not refused yet, it is not taken for a whole request either.
    EXPECT_TRUE(feed(parser, text, 1000) == 400 || !parser.done()) << text;
  }
}

TEST(RequestParser, AnyBytesAreRefusedOrWaitForMore) {
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = kChunked;
    for (int i = 0; i < 3; ++i) {
      text[rng.next_u64() % text.size()] = static_cast<char>(rng.next_u64());
    }
    RequestParser parser({.header_bytes = 1024, .body_bytes = 1024});
    feed(parser, text, 1 + rng.next_u64() % 50);
    if (!parser.done()) continue;
    EXPECT_LE(parser.take().body.size(), 1024U);
  }
}

TEST(RequestParser, ExpectsContinue) {
  RequestParser parser({});
  feed(parser, "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n", 1000);
  ASSERT_TRUE(parser.header_done());
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_FALSE(parser.done());
}

TEST(Message, HeadersCannotBreakOutOfTheirLine) {
  const std::string head = response_head(200, {{"A", "b"}, {"X", "c\r\nEvil: 1"}});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\nDate: ")) << head;
  EXPECT_TRUE(head.ends_with(" GMT\r\nA: b\r\n\r\n")) << head;
}

TEST(Message, Chunks) {
  EXPECT_EQ(to_chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
  EXPECT_EQ(to_chunk(""), "");
}

}  // namespace
}  // namespace octavo::server
