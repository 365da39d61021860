#include "server/http/message.h"

#include <algorithm>
#include <ctime>

#include "base/format.h"

namespace octavo::server {
namespace {

struct Reason {
  int status;
  std::string_view phrase;
};

constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool breaks_line(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7F;
  });
}

// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second.
const std::string& http_date() {
  thread_local std::time_t made_for = -1;
  thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now == made_for) return text;
  std::tm parts{};
  gmtime_r(&now, &parts);
  char buffer[64];
  text.assign(buffer, std::strftime(buffer, sizeof(buffer), "%a, %d %b %Y %H:%M:%S GMT", &parts));
  made_for = now;
  return text;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

const std::string* find_header(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return &value;
  }
  return nullptr;
}

std::string_view reason_phrase(int status) {
  for (const Reason& reason : kReasons) {
    if (reason.status == status) return reason.phrase;
  }
  return "Unknown";
}

std::string response_head(int status, const HttpHeaders& headers) {
  std::string head =
      format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, reason_phrase(status), http_date());
  for (const auto& [name, value] : headers) {
    if (breaks_line(name) || breaks_line(value)) continue;
    head += name;
    head += ": ";
    head += value;
    head += "\r\n";
  }
  return head + "\r\n";
}

std::string to_chunk(std::string_view data) {
  if (data.empty()) return "";
  std::string chunk = format("{:x}\r\n", data.size());
  chunk += data;
  return chunk + "\r\n";
}

}  // namespace octavo::server
