// A generating HTTP request: its prompts go to the engine, its events come back as one response,
// whole or streamed. The form of the response is an OutputFormat's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/app.h"
#include "server/http/exchange.h"

namespace octavo::server {

// One for each HTTP request; called by one thread at a time.
class OutputFormat {
 public:
  virtual ~OutputFormat() = default;

  // The body of a whole response, from the last events of all prompts, in order.
  virtual std::string whole(const std::vector<RequestOutput>& outputs) = 0;
  virtual const char* whole_content_type() const { return "application/json"; }

  // What an event of a prompt adds to a stream, and what ends it. A status that is not ok ends it
  // with an error.
  virtual void append_event(std::string& out, size_t prompt_idx, const RequestOutput& output) = 0;
  virtual void append_end(std::string& out, const Usage& usage) = 0;
  virtual void append_error(std::string& out, const Status& status) = 0;
  virtual const char* stream_content_type() const { return "text/event-stream; charset=utf-8"; }
};

struct GenerationJob {
  std::vector<EngineRequest> requests;  // one for each prompt
  std::unique_ptr<OutputFormat> format;
  std::string id;  // what answers show
  bool stream = false;
  double arrival = 0;
};

using MakeJob = Result<GenerationJob> (*)(App& app, const HttpRequest& request,
                                          const JsonObject& body);

// Answers `exchange` by what `make_job` makes of its request: an error now, else as events come.
void answer_generation(App& app, const std::shared_ptr<Exchange>& exchange, MakeJob make_job);

// The engine checks it too, but formats keep something for each answer.
Status check_num_answers(App& app, int32_t n);

// The client's own id where it has one (X-Request-Id, then `request_id`), else a random one, with
// `prefix` before it.
std::string make_response_id(const char* prefix, const HttpRequest& request,
                             const std::string& request_id);

// "data: …\n\n"
void append_sse(std::string& out, const JsonObject& data);

// Seconds since 1970.
int64_t unix_time();

Usage total_usage(const std::vector<RequestOutput>& outputs);

// The usage object of a response.
JsonObject usage_json(const Usage& usage, const ServerConfig& config);

}  // namespace octavo::server
