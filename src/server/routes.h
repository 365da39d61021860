// The table of routes, and what holds for all of them: authorisation, CORS, request ids, metrics.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace octavo::server {

class App;

struct Route {
  std::string_view method;
  std::string_view path;
  std::string_view summary;
  bool is_slow;         // runs on a worker thread
  bool is_development;  // there with --enable-dev-endpoints only
  void (*handler)(App& app, const std::shared_ptr<Exchange>& exchange);
};

std::span<const Route> routes();

// An exchange as handlers see it: adds the headers of every response, and counts it.
class RoutedExchange final : public Exchange {
 public:
  RoutedExchange(App& app, std::shared_ptr<Exchange> exchange);

  // The route of the request; nullptr where the answer has been given already.
  const Route* find_route();

  const HttpRequest& request() const override { return exchange_->request(); }
  void post(std::function<void()> task) override { exchange_->post(std::move(task)); }
  void on_gone(std::function<void()> callback) override { exchange_->on_gone(std::move(callback)); }
  void send(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void write(std::string data) override { exchange_->write(std::move(data)); }
  void end(std::string last_data) override { exchange_->end(std::move(last_data)); }

 private:
  std::string path() const;
  bool is_authorized(std::string_view path) const;
  bool is_preflight() const;
  void answer_preflight();
  void add_headers(HttpResponse& response);

  App& app_;
  std::shared_ptr<Exchange> exchange_;
  std::string route_path_ = "none";  // for metrics: never what a client made up
};

// Whether `given` equals one of `keys`; takes as long whichever it is and however much of it fits.
bool matches_a_key(std::string_view given, std::span<const std::string> keys);

}  // namespace octavo::server
