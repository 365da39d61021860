// HttpStreams: any number of HTTP requests at once, whose answers are taken as they come. One
// thread drives all of them by poll(); connections are kept and used again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::hub {

struct StreamRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // POST; "": GET
  std::string answer_header;         // the name of the one that on_header gets; "": none
};

// Takes one answer. Called from poll(); must not call the HttpStreams that calls it.
class StreamSink {
 public:
  virtual ~StreamSink() = default;

  virtual void on_bytes(std::string_view bytes) = 0;

  // Where the answer has the header that the request names; before on_end.
  virtual void on_header(std::string_view) {}

  // Last, exactly once. `status`: 0 where there was no answer. `failure`: why the transfer broke
  // off; "" where the answer is whole.
  virtual void on_end(int status, const std::string& failure) = 0;
};

class HttpStreams {
 public:
  HttpStreams();
  ~HttpStreams();
  HttpStreams(const HttpStreams&) = delete;
  HttpStreams& operator=(const HttpStreams&) = delete;

  // `sink` must live until its on_end, or until this is destroyed.
  Status start(StreamRequest request, StreamSink& sink);

  // Does what can be done now; where nothing can, waits for up to `timeout_s`.
  Status poll(double timeout_s);

  int64_t num_running() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::hub
