// Connection: one client's byte stream as a sequence of exchanges: keep-alive, pipelining, time
// limits, and a bounded buffer for what the client has not read yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/http/io_loop.h"
#include "server/http/request_parser.h"

namespace octavo::server {

// A socket, with or without TLS. Handlers run on the loop that it belongs to.
class Transport {
 public:
  using Handler = std::function<void(boost::system::error_code, size_t)>;
  virtual ~Transport() = default;
  virtual void handshake(Handler handler) = 0;
  virtual void read_some(boost::asio::mutable_buffer buffer, Handler handler) = 0;
  // What can be sent without waiting; 0 also where only write_some() can.
  virtual size_t write_now(boost::asio::const_buffer buffer, boost::system::error_code& error) = 0;
  virtual void write_some(boost::asio::const_buffer buffer, Handler handler) = 0;
  virtual bool has_unread() = 0;  // bytes that have come and were not read yet
  virtual void shutdown_send() = 0;
  virtual void close() = 0;
};

// What connections share. Outlives them.
struct ConnectionContext {
  HttpServerOptions options;
  ExchangeHandler handler;
  std::atomic<int64_t> num_connections = 0;
  std::atomic<int64_t> num_refused = 0;    // connections beyond the limit, told so
  std::atomic<int64_t> num_exchanges = 0;  // not yet answered
  std::atomic<bool> draining = false;      // each response is the last of its connection
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // One that `is_refused` only gets to read that the server has too many.
  Connection(std::unique_ptr<Transport> transport, IoLoop& loop, ConnectionContext& context,
             bool is_refused = false);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void close_if_idle();  // any thread; where it is not, the server drains and send() closes
  void close_soon();     // any thread

 private:
  class ExchangeImpl;
  static constexpr auto kNoLimit = boost::asio::steady_timer::time_point::max();

  void read();
  void on_bytes();
  void parse();
  void begin_exchange();
  void refuse(int status, const std::string& message, const char* type = "BadRequestError");
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void write(std::string_view data);
  void end(std::string_view data);
  bool append_body(std::string_view data);
  void exchange_ended();
  void flush();
  bool flush_now();
  void flushed();
  void limit_time(double seconds, const char* what);
  void wait_for_limit();
  void limit_reached();
  bool is_idle() const;
  void close();

  std::unique_ptr<Transport> transport_;
  IoLoop& loop_;
  ConnectionContext& context_;
  const bool is_refused_;
  // The timer is not set anew for each limit: it goes off no later than the present one, and looks.
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer::time_point time_limit_ = kNoLimit;
  const char* limited_ = "";  // what the limit is for
  bool timer_runs_ = false;
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
