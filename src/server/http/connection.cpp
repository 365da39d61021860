#include "server/http/connection.h"

#include <algorithm>
#include <chrono>

#include "base/format.h"
#include "base/log.h"

namespace octavo::server {
namespace {

constexpr size_t kReadBytes = 16 << 10;
// Of further requests while one is answered. Reading stops there: that the client has left is then
// seen only when something is sent.
constexpr size_t kMaxPipelinedBytes = 64 << 10;
// How long a client may take to read an error that was sent before its request was read.
constexpr double kLingerS = 2;

}  // namespace

// The handler's side. It outlives the connection where the handler keeps it.
class Connection::ExchangeImpl final : public Exchange,
                                       public std::enable_shared_from_this<ExchangeImpl> {
 public:
  ExchangeImpl(HttpRequest request, const std::shared_ptr<Connection>& connection)
      : request_(std::move(request)), loop_(connection->loop_), connection_(connection) {}

  const HttpRequest& request() const override { return request_; }

  void post(std::function<void()> task) override { loop_.post(std::move(task)); }

  void on_gone(std::function<void()> callback) override {
    on_loop([callback = std::move(callback)](ExchangeImpl& self) mutable {
      if (self.gone_) {
        callback();
      } else if (!self.complete_) {
        self.callback_ = std::move(callback);
      }
    });
  }

  void send(HttpResponse response) override {
    answer(
        [response = std::move(response)](Connection& c) mutable { c.send(std::move(response)); });
  }
  void begin(HttpResponse head) override {
    answer([head = std::move(head)](Connection& c) mutable { c.begin(std::move(head)); });
  }
  void write(std::string data) override {
    answer([data = std::move(data)](Connection& c) { c.write(data); });
  }
  void end(std::string last_data) override {
    answer([data = std::move(last_data)](Connection& c) { c.end(data); });
  }

  // What follows is of the connection, on its loop.
  void set_complete() {
    complete_ = true;
    callback_ = nullptr;
  }
  void set_gone() {
    gone_ = true;
    if (const auto callback = std::exchange(callback_, nullptr)) callback();
  }

 private:
  template <typename Fn>
  void on_loop(Fn fn) {
    if (loop_.is_own_thread()) return fn(*this);
    loop_.post([self = shared_from_this(), fn = std::move(fn)]() mutable { fn(*self); });
  }

  template <typename Fn>
  void answer(Fn fn) {
    on_loop([fn = std::move(fn)](ExchangeImpl& self) mutable {
      const auto connection = self.connection_.lock();
      if (connection && !self.gone_ && !self.complete_) fn(*connection);
    });
  }

  const HttpRequest request_;
  IoLoop& loop_;
  std::weak_ptr<Connection> connection_;
  std::function<void()> callback_;
  bool complete_ = false;
  bool gone_ = false;
};

Connection::Connection(std::unique_ptr<Transport> transport, IoLoop& loop,
                       ConnectionContext& context, bool is_refused)
    : transport_(std::move(transport)),
      loop_(loop),
      context_(context),
      is_refused_(is_refused),
      timer_(loop.context()),
      chunk_(kReadBytes, '\0') {
  ++(is_refused_ ? context_.num_refused : context_.num_connections);
}

Connection::~Connection() {
  --(is_refused_ ? context_.num_refused : context_.num_connections);
}

void Connection::start() {
  boost::asio::dispatch(loop_.context(), [self = shared_from_this()] {
    self->limit_time(self->is_refused_ ? kLingerS : self->context_.options.receive_timeout_s,
                     "the handshake");
    self->transport_->handshake([self](boost::system::error_code error, size_t) {
      if (error) return self->close();
      if (self->is_refused_) {
        return self->refuse(503, "the server has as many connections as it takes",
                            "ServiceUnavailableError");
      }
      self->parser_ = std::make_unique<RequestParser>(self->context_.options.limits);
      self->limit_time(self->context_.options.idle_timeout_s, "idle");
      self->read();
    });
  });
}

void Connection::close_if_idle() {
  loop_.post([self = shared_from_this()] {
    if (self->is_idle()) self->close();
  });
}

void Connection::close_soon() {
  loop_.post([self = shared_from_this()] { self->close(); });
}

// --- reading ------------------------------------------------------------------------------------

// Goes on while an exchange is answered: that is how a client that leaves is noticed.
void Connection::read() {
  const size_t most = std::max<size_t>(kMaxPipelinedBytes, context_.options.limits.header_bytes);
  if (closed_ || is_reading_ || received_.size() >= most) return;
  is_reading_ = true;
  transport_->read_some(boost::asio::buffer(chunk_),
                        [self = shared_from_this()](boost::system::error_code error, size_t count) {
                          self->is_reading_ = false;
                          if (error) return self->close();
                          if (self->lingering_) return self->read();
                          self->received_.append(self->chunk_.data(), count);
                          self->on_bytes();
                        });
}

// The next request waits until the client has taken the last answer: a pipeline of short requests
// would otherwise fill memory with answers that nobody reads.
void Connection::on_bytes() {
  if (!exchange_ && !last_exchange_ && !is_sending_) parse();
  read();
}

void Connection::parse() {
  if (received_.empty() || closed_) return;
  if (!is_receiving_) {
    is_receiving_ = true;
    limit_time(context_.options.receive_timeout_s, "receiving a request");
  }
  const auto used = parser_->feed(received_);
  if (!used.ok()) return refuse(parser_->error_status(), used.status().message());
  received_.erase(0, *used);
  if (parser_->done()) return begin_exchange();
  // The parser needs a header whole; what it leaves unread is part of one and has its limit.
  if (received_.size() >= context_.options.limits.header_bytes) {
    return refuse(431, "the headers are larger than the server takes");
  }
  if (parser_->header_done() && !continue_sent_ && parser_->expects_continue()) {
    continue_sent_ = true;
    unsent_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
}

void Connection::begin_exchange() {
  HttpRequest request = parser_->take();
  parser_ = std::make_unique<RequestParser>(context_.options.limits);
  is_receiving_ = false;
  continue_sent_ = false;
  time_limit_ = kNoLimit;
  last_exchange_ = last_exchange_ || !request.keep_alive;
  head_only_ = request.method == "HEAD";
  chunked_ = !request.is_http_1_0;
  ++context_.num_exchanges;
  exchange_ = std::make_shared<ExchangeImpl>(std::move(request), shared_from_this());
  context_.handler(exchange_);
}

// An error before there is an exchange. What the client still sends is read and dropped for a
// while: closing at once would make it lose the answer.
void Connection::refuse(int status, const std::string& message, const char* type) {
  std::string body = format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":{}}}}})",
                            message, type, status);
  HttpHeaders headers{{"Content-Type", "application/json"},
                      {"Content-Length", format("{}", body.size())},
                      {"Connection", "close"}};
  if (status == 503) headers.emplace_back("Retry-After", "1");
  last_exchange_ = true;
  is_receiving_ = false;
  received_.clear();
  unsent_ += response_head(status, headers);
  unsent_ += body;
  flush();
}

// --- answering ----------------------------------------------------------------------------------

void Connection::send(HttpResponse response) {
  last_exchange_ = last_exchange_ || context_.draining;
  if (response.status != 204) {
    response.headers.emplace_back("Content-Length", format("{}", response.body.size()));
  }
  if (last_exchange_) response.headers.emplace_back("Connection", "close");
  unsent_ += response_head(response.status, response.headers);
  if (!head_only_) unsent_ += response.body;
  exchange_ended();
}

void Connection::begin(HttpResponse head) {
  last_exchange_ = last_exchange_ || context_.draining || !chunked_;
  if (chunked_) head.headers.emplace_back("Transfer-Encoding", "chunked");
  if (last_exchange_) head.headers.emplace_back("Connection", "close");
  unsent_ += response_head(head.status, head.headers);
  flush();
}

void Connection::write(std::string_view data) {
  if (append_body(data)) flush();
}

void Connection::end(std::string_view data) {
  if (!append_body(data)) return;
  if (chunked_ && !head_only_) unsent_ += "0\r\n\r\n";
  exchange_ended();
}

// False where that was too much for the client, which is gone then.
bool Connection::append_body(std::string_view data) {
  if (head_only_) return true;
  const size_t size_bytes = unsent_.size() + sending_.size() - num_sent_;
  if (size_bytes + data.size() > context_.options.max_unsent_bytes) {
    log_warning("a client reads too slowly: disconnected with {} bytes unsent", size_bytes);
    close();
    return false;
  }
  unsent_ += chunked_ ? to_chunk(data) : std::string(data);
  return true;
}

void Connection::exchange_ended() {
  exchange_->set_complete();
  exchange_.reset();
  --context_.num_exchanges;
  flush();
}

// --- sending ------------------------------------------------------------------------------------

// Sends what it can at once: nothing waits for the loop to come round.
void Connection::flush() {
  if (closed_ || is_sending_) return;
  if (flush_now()) return flushed();
  if (closed_) return;
  is_sending_ = true;
  limit_time(context_.options.send_timeout_s, "sending");
  transport_->write_some(
      boost::asio::buffer(sending_.data() + num_sent_, sending_.size() - num_sent_),
      [self = shared_from_this()](boost::system::error_code error, size_t count) {
        self->is_sending_ = false;
        if (error) return self->close();
        self->num_sent_ += count;
        self->flush();
      });
}

// Whether nothing is left.
bool Connection::flush_now() {
  for (;;) {
    if (num_sent_ == sending_.size()) {
      sending_.clear();
      num_sent_ = 0;
      std::swap(sending_, unsent_);
    }
    if (sending_.empty()) return true;
    boost::system::error_code error;
    const size_t count = transport_->write_now(
        boost::asio::buffer(sending_.data() + num_sent_, sending_.size() - num_sent_), error);
    if (error) close();
    if (count == 0) return false;
    num_sent_ += count;
  }
}

// Nothing is left to send.
void Connection::flushed() {
  time_limit_ = kNoLimit;
  if (exchange_) return;
  // Not at once: a handler may be on the stack, and a long pipeline would nest.
  if (!last_exchange_ && !received_.empty()) {
    loop_.post([self = shared_from_this()] { self->on_bytes(); });
  }
  if (is_receiving_ && !last_exchange_) {
    return limit_time(context_.options.receive_timeout_s, "receiving a request");
  }
  if (!last_exchange_ && !(context_.draining && is_idle())) {
    return limit_time(context_.options.idle_timeout_s, "idle");
  }
  if (lingering_) return;
  lingering_ = true;
  received_.clear();
  transport_->shutdown_send();
  limit_time(kLingerS, "closing");
  read();
}

void Connection::limit_time(double seconds, const char* what) {
  time_limit_ = std::chrono::steady_clock::now() +
                std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  limited_ = what;
  if (!timer_runs_ || time_limit_ < timer_.expiry()) wait_for_limit();
}

void Connection::wait_for_limit() {
  timer_runs_ = true;
  timer_.expires_at(time_limit_);  // ends an earlier wait with an error
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (error || self->closed_) return;
    self->timer_runs_ = false;
    if (self->time_limit_ == kNoLimit) return;
    if (self->time_limit_ > std::chrono::steady_clock::now()) return self->wait_for_limit();
    self->limit_reached();
  });
}

// A request that has come in time is answered, even where this loop was held up meanwhile and sees
// the limit first; one that has begun is never dropped without a word.
void Connection::limit_reached() {
  if (!is_sending_ && !lingering_ && transport_->has_unread()) {
    return limit_time(context_.options.receive_timeout_s, "receiving a request");
  }
  log_debug("a connection is closed: too long in '{}'", limited_);
  if (is_receiving_ && !is_sending_) return refuse(408, "the request did not arrive in time");
  close();
}

// Whether nobody waits for anything, as far as this side can know.
bool Connection::is_idle() const {
  return !exchange_ && !is_receiving_ && !is_sending_ && received_.empty() &&
         !transport_->has_unread();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  timer_.cancel();
  transport_->close();
  if (exchange_) {
    --context_.num_exchanges;
    const auto exchange = std::exchange(exchange_, nullptr);
    exchange->set_gone();
  }
}

}  // namespace octavo::server
