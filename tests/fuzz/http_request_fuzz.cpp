// HTTP requests of any bytes, as a connection reads them: in two pieces, cut where the first byte
// says. Parsing never crashes and keeps its limits, where the cut was does not change a request,
// and what a body's fields hold is read or refused.
#include <cstdint>
#include <cstdlib>

#include "server/http/request_parser.h"
#include "server/openai/sampling_fields.h"

namespace {

using octavo::server::RequestLimits;
using octavo::server::RequestParser;

constexpr RequestLimits kLimits{.header_bytes = 4096, .body_bytes = 8192};

struct Outcome {
  int error_status = 0;  // 0: none
  bool done = false;
  octavo::server::HttpRequest request;
};

Outcome parse(std::string_view data, size_t cut) {
  RequestParser parser(kLimits);
  Outcome outcome;
  std::string received;
  for (const std::string_view piece : {data.substr(0, cut), data.substr(cut)}) {
    received += piece;
    const auto used = parser.feed(received);
    if (!used.ok()) {
      outcome.error_status = parser.error_status();
      if (outcome.error_status < 400 || outcome.error_status > 499) std::abort();
      return outcome;
    }
    if (*used > received.size()) std::abort();
    received.erase(0, *used);
    if (parser.done()) break;
  }
  outcome.done = parser.done();
  if (outcome.done) outcome.request = parser.take();
  return outcome;
}

// Reads what a generating route reads. An accepted number is in the range of its type by then.
void read_fields(const std::string& body) {
  const auto object = octavo::server::parse_body(body);
  if (!object.ok()) return;
  octavo::server::ServerConfig config;
  octavo::server::Fields fields(*object);
  const auto options = octavo::server::read_generation_options(fields, config);
  if (fields.status().ok() && options.truncate_prompt_tokens.value_or(-1) < -1) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = parse(text, text.size());
  const Outcome cut = parse(text, text.size() * data[0] / 256);
  // An error may be seen later where a line came in two pieces, but a request is one either way.
  if (whole.done != cut.done) std::abort();
  if (whole.done) {
    if (whole.request.body != cut.request.body || whole.request.path != cut.request.path ||
        whole.request.headers != cut.request.headers) {
      std::abort();
    }
    if (whole.request.body.size() > kLimits.body_bytes) std::abort();
    read_fields(whole.request.body);
  }
  read_fields(std::string(text));
  return 0;
}
