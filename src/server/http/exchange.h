// Exchange: one request and the way to answer it, as a handler sees them. All calls are safe from
// any thread, none blocks, and none has an effect once the client is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/http/message.h"

namespace octavo::server {

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;

  // Runs `task` later on an I/O thread; tasks of one exchange run in order, one at a time.
  virtual void post(std::function<void()> task) = 0;

  // Called once, where tasks run, if the client leaves before the response is complete; at once
  // where it is gone already.
  virtual void on_gone(std::function<void()> callback) = 0;

  // The whole response.
  virtual void send(HttpResponse response) = 0;

  // Or a response in pieces. `begin` without a body; a reader that is too slow for `write` is
  // disconnected.
  virtual void begin(HttpResponse head) = 0;
  virtual void write(std::string data) = 0;
  virtual void end(std::string last_data) = 0;
};

using ExchangeHandler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace octavo::server
