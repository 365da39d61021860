// What a handler sees of HTTP: a request that has arrived whole, and the response to it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The value of the first header of that name in any case, or nullptr.
const std::string* find_header(const HttpHeaders& headers, std::string_view name);

bool equal_ignoring_case(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method;
  std::string path;   // as sent, up to the '?'
  std::string query;  // what follows it
  HttpHeaders headers;
  std::string body;
  bool keep_alive = true;
  bool is_http_1_0 = false;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;
  std::string body;
};

// "Not Found" for 404.
std::string_view reason_phrase(int status);

// The status line, Date and the headers, with the empty line that ends them. What frames the body
// (Content-Length, Transfer-Encoding, Connection) is the caller's. A header that could break out of
// its line is left out.
std::string response_head(int status, const HttpHeaders& headers);

// `data` as a chunk of a chunked body; "" for no data, since an empty chunk ends the body.
std::string to_chunk(std::string_view data);

}  // namespace octavo::server
