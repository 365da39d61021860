// HttpServer: listens, accepts, and calls a handler for each request. Knows nothing of what is
// served; Boost.Asio stays below this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "octavo/status.h"
#include "server/http/exchange.h"
#include "server/http/request_parser.h"

namespace octavo::server {

struct HttpServerOptions {
  std::string host;  // a name or an address; "": all IPv4 interfaces
  int port = 8000;   // 0: a free one
  std::string uds;   // the path of a Unix socket in place of host and port
  std::string ssl_keyfile;
  std::string ssl_certfile;
  std::string ssl_ca_certs;
  bool ssl_require_client_cert = false;
  // A token of a stream costs 12 us of one thread; a second one makes that 16.
  int num_threads = 1;

  RequestLimits limits;
  int64_t max_connections = 4096;
  double idle_timeout_s = 60;         // between two requests
  double receive_timeout_s = 60;      // for one request to arrive
  double send_timeout_s = 60;         // without a byte that the client took
  size_t max_unsent_bytes = 1 << 20;  // of a streamed response; more: the client is too slow
};

class HttpServer {
 public:
  // Binds the address, so that a wrong one is an error at once; nobody can connect before start().
  static Result<std::unique_ptr<HttpServer>> create(const HttpServerOptions& options,
                                                    ExchangeHandler handler);

  // stop().
  virtual ~HttpServer() = default;

  // "http://127.0.0.1:8000", "unix:/run/octavo.sock"
  virtual std::string address() const = 0;

  virtual Status start() = 0;

  // No further connections; each ends after what it is answering.
  virtual void drain() = 0;

  virtual int64_t num_exchanges() const = 0;

  // Closes everything and joins the threads.
  virtual void stop() = 0;
};

}  // namespace octavo::server
