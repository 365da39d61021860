// HttpClient: one request at a time over connections that it keeps. Redirects, retries and what an
// answer means are its callers' business. Many requests at once: hub/http_streams.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::hub {

struct HttpRequest {
  std::string url;
  std::string token;  // "": no Authorization header
  bool head = false;
  int64_t range_begin = 0;  // > 0: only what follows this many bytes is wanted
  std::string json_body;    // what is posted; "": nothing is
};

struct HttpResponse {
  int status = 0;                              // 0: there was no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string redirect_url;                    // absolute; of a 3xx answer that names one
  int64_t retry_after_s = 0;                   // 0: the server does not say
  std::string failure;                         // why the transfer broke off; "": it did not
  std::string error_text;                      // the beginning of an answer that is not ok()

  bool ok() const { return status >= 200 && status < 300; }
  // "" where there is none of that name (in lower case).
  std::string_view header(const std::string& name) const;
};

// Takes the content of a 2xx answer. An error ends the transfer.
class HttpBody {
 public:
  virtual ~HttpBody() = default;

  // Bytes that are there already: a request asks for the rest.
  virtual int64_t offset() const { return 0; }

  // Before the first write; also where the content is empty.
  virtual Status begin(const HttpResponse& response) = 0;
  virtual Status write(std::string_view bytes) = 0;

  // Asked now and then while nothing comes; false ends the transfer.
  virtual bool wanted() const { return true; }

  // Whether what has been written is everything.
  virtual bool complete() const { return true; }
};

class HttpClient {
 public:
  // A connection counts as broken after `timeout_s` without a byte.
  explicit HttpClient(int timeout_s);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `body` may be null. The error is the body's; what went wrong on the way is in the response.
  Result<HttpResponse> perform(const HttpRequest& request, HttpBody* body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "https://host:443" of a URL; "" where it is none.
std::string url_origin(const std::string& url);

}  // namespace octavo::hub
