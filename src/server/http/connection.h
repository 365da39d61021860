// Connection: one client's byte stream as a sequence of exchanges: keep-alive, pipelining, time
// limits, and a bounded buffer for what the client has not read yet.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/http/request_parser.h"

namespace octavo::server {

// A socket, with or without TLS. Handlers run one at a time on its executor.
class Transport {
 public:
  using Handler = std::function<void(boost::system::error_code, size_t)>;
  virtual ~Transport() = default;
  virtual boost::asio::any_io_executor executor() = 0;
  virtual void handshake(Handler handler) = 0;
  virtual void read_some(boost::asio::mutable_buffer buffer, Handler handler) = 0;
  virtual void write_some(boost::asio::const_buffer buffer, Handler handler) = 0;
  virtual void shutdown_send() = 0;
  virtual void close() = 0;
};

// What connections share. Outlives them.
struct ConnectionContext {
  HttpServerOptions options;
  ExchangeHandler handler;
  std::atomic<int64_t> num_connections = 0;
  std::atomic<int64_t> num_exchanges = 0;  // not yet answered
  std::atomic<bool> draining = false;      // each response is the last of its connection
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<Transport> transport, ConnectionContext& context);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void close_if_idle();  // any thread
  void close_soon();     // any thread

 private:
  class ExchangeImpl;

  void read();
  void on_bytes();
  void parse();
  void begin_exchange();
  void refuse(int status, const std::string& message);
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void write(std::string_view data);
  void end();
  void exchange_ended();
  void queue(std::string_view bytes);
  void flush();
  void flushed();
  void limit_time(double seconds, const char* what);
  void close();

  std::unique_ptr<Transport> transport_;
  ConnectionContext& context_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<RequestParser> parser_;
  std::shared_ptr<ExchangeImpl> exchange_;  // the one that is being answered
  std::string received_;                    // not parsed yet
  std::string chunk_;                       // where reads go
  std::string unsent_;
  std::string sending_;
  size_t num_sent_ = 0;  // of sending_
  bool is_reading_ = false;
  bool is_sending_ = false;
  bool is_receiving_ = false;  // a request has begun and is not whole
  bool continue_sent_ = false;
  bool chunked_ = false;
  bool head_only_ = false;
  bool last_exchange_ = false;  // close once all is sent
  bool lingering_ = false;      // only waits for the client to read the last response
  bool closed_ = false;
};

}  // namespace octavo::server
