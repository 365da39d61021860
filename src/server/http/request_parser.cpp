#include "server/http/request_parser.h"

// Beast 1.81 asserts that a last chunk has come as a whole, but goes on as it should where it has
// not ("0\r\n\n"): a build with assertions must not end for what a client sends.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <string>

#include "base/format.h"

namespace octavo::server {

namespace http = boost::beast::http;

namespace {

// "/path" of "http://host:8000/path", which is how clients ask that take the server for a proxy.
std::string without_authority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const size_t end = std::min(target.size(), target.find_first_of("/?", scheme.size()));
    const std::string_view rest = target.substr(end);
    return rest.starts_with("/") ? std::string(rest) : "/" + std::string(rest);
  }
  return std::string(target);
}

}  // namespace

struct RequestParser::Impl {
  http::request_parser<http::string_body> parser;
};

RequestParser::RequestParser(const RequestLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(limits.header_bytes);
  impl_->parser.body_limit(limits.body_bytes);
  impl_->parser.eager(true);
}

RequestParser::~RequestParser() = default;

Result<size_t> RequestParser::feed(std::string_view data) {
  size_t used = 0;
  while (used < data.size() && !impl_->parser.is_done()) {
    boost::beast::error_code error;
    const size_t taken =
        impl_->parser.put(boost::asio::buffer(data.data() + used, data.size() - used), error);
    used += taken;
    if (error == http::error::need_more) break;
    if (error) {
      const bool body_limit = error == http::error::body_limit;
      const bool header_limit = error == http::error::header_limit;
      error_status_ = body_limit ? 413 : header_limit ? 431 : 400;
      return invalid_argument(body_limit     ? "the body is larger than the server takes"
                              : header_limit ? "the headers are larger than the server takes"
                                             : "malformed HTTP request: " + error.message());
    }
    if (taken == 0) break;
  }
  return used;
}

bool RequestParser::header_done() const {
  return impl_->parser.is_header_done();
}

bool RequestParser::done() const {
  return impl_->parser.is_done();
}

bool RequestParser::expects_continue() const {
  const auto& message = impl_->parser.get();
  return message.version() >= 11 &&
         equal_ignoring_case(message[http::field::expect], "100-continue");
}

HttpRequest RequestParser::take() {
  auto message = impl_->parser.release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target = without_authority(message.target());
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(field.name_string(), field.value());
  }
  request.keep_alive = message.keep_alive();
  request.is_http_1_0 = message.version() < 11;
  request.body = std::move(message.body());
  return request;
}

}  // namespace octavo::server
