// RequestParser: bytes of a connection to one HTTP/1.x request, within limits. The only wrapper of
// Boost.Beast. It does no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "octavo/status.h"
#include "server/http/message.h"

namespace octavo::server {

struct RequestLimits {
  uint32_t header_bytes = 64 << 10;  // the request line and all headers
  uint64_t body_bytes = 32 << 20;
};

class RequestParser {
 public:
  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes what it can of `data` and returns how many bytes that was; the rest must be given again,
  // with what has come in the meantime. After an error `error_status` is the HTTP status.
  Result<size_t> feed(std::string_view data);

  bool header_done() const;
  bool done() const;
  bool expects_continue() const;  // after header_done
  int error_status() const { return error_status_; }

  // The request, once done.
  HttpRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int error_status_ = 400;
};

}  // namespace octavo::server
