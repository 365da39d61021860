#include "server/http/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl.hpp>
#include <optional>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "server/http/connection.h"

namespace octavo::server {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using Executor = asio::io_context::executor_type;  // not type-erased: each operation copies it
using Socket = asio::basic_stream_socket<Protocol, Executor>;
using Acceptor = asio::basic_socket_acceptor<Protocol, Executor>;
using Error = boost::system::error_code;

// Beyond the limit, and told so, at a time; more are closed without a word.
constexpr int64_t kMaxRefused = 64;

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {
    Error ignored;
    socket_.non_blocking(true, ignored);
  }
  void handshake(Handler handler) override { handler({}, 0); }
  void read_some(asio::mutable_buffer buffer, Handler handler) override {
    socket_.async_read_some(buffer, std::move(handler));
  }
  size_t write_now(asio::const_buffer buffer, Error& error) override {
    const size_t count = socket_.write_some(buffer, error);
    if (error == asio::error::would_block) error = {};
    return count;
  }
  void write_some(asio::const_buffer buffer, Handler handler) override {
    socket_.async_write_some(buffer, std::move(handler));
  }
  bool has_unread() override {
    Error ignored;
    return socket_.available(ignored) > 0;
  }
  void shutdown_send() override {
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void close() override {
    Error ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}
  void handshake(Handler handler) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [handler = std::move(handler)](Error error) { handler(error, 0); });
  }
  void read_some(asio::mutable_buffer buffer, Handler handler) override {
    stream_.async_read_some(buffer, std::move(handler));
  }
  size_t write_now(asio::const_buffer, Error&) override { return 0; }
  void write_some(asio::const_buffer buffer, Handler handler) override {
    stream_.async_write_some(buffer, std::move(handler));
  }
  bool has_unread() override {
    Error ignored;
    return stream_.next_layer().available(ignored) > 0;
  }
  // Without TLS's own good-bye, which would wait for the client: lengths frame every response that
  // a client of HTTP/1.1 gets.
  void shutdown_send() override {
    Error ignored;
    stream_.next_layer().shutdown(Socket::shutdown_send, ignored);
  }
  void close() override {
    Error ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  asio::ssl::stream<Socket> stream_;
};

class AsioServer final : public HttpServer {
 public:
  AsioServer(const HttpServerOptions& options, ExchangeHandler handler) {
    context_.options = options;
    context_.handler = std::move(handler);
    for (int i = 0; i < std::max(1, options.num_threads); ++i) {
      loops_.push_back(std::make_unique<IoLoop>());
    }
    acceptor_.emplace(loops_[0]->context());
    retry_.emplace(loops_[0]->context());
  }
  ~AsioServer() override { stop(); }

  Status bind();
  std::string address() const override { return address_; }
  Status start() override;
  void drain() override;
  int64_t num_exchanges() const override { return context_.num_exchanges; }
  void stop() override;

 private:
  Status bind_tcp();
  Status bind_uds();
  Status bind_to(const Protocol::endpoint& endpoint, const std::string& name);
  Status load_certificate();
  void accept();
  void accepted(Socket socket, IoLoop& loop);
  void log_refused();
  template <typename Fn>
  void close_acceptor_and(Fn fn);

  ConnectionContext context_;  // before the loops, whose handlers own connections
  std::unique_ptr<asio::ssl::context> tls_;
  std::vector<std::unique_ptr<IoLoop>> loops_;  // connections take turns; the first also accepts
  std::optional<Acceptor> acceptor_;
  std::optional<asio::steady_timer> retry_;
  size_t num_accepted_ = 0;
  std::string address_;
  std::vector<std::weak_ptr<Connection>> connections_;  // of the first loop
  size_t num_swept_ = 0;  // of connections_, those there after the last sweep
  size_t num_refused_unlogged_ = 0;
  double next_refused_log_s_ = 0;
};

Status AsioServer::bind() {
  if (!context_.options.ssl_certfile.empty() || !context_.options.ssl_keyfile.empty()) {
    OCTAVO_TRY(load_certificate());
  }
  return context_.options.uds.empty() ? bind_tcp() : bind_uds();
}

Status AsioServer::bind_to(const Protocol::endpoint& endpoint, const std::string& name) {
  Error error;
  acceptor_->open(endpoint.protocol(), error);
  if (!error && context_.options.uds.empty()) {
    acceptor_->set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) acceptor_->bind(endpoint, error);
  if (error) return unavailable(format("cannot listen on {}: {}", name, error.message()));
  return {};
}

Status AsioServer::bind_tcp() {
  const HttpServerOptions& options = context_.options;
  const std::string host = options.host.empty() ? "0.0.0.0" : options.host;
  asio::ip::tcp::resolver resolver(loops_[0]->context());
  Error error;
  const auto found = resolver.resolve(
      host, format("{}", options.port),
      asio::ip::tcp::resolver::passive | asio::ip::tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return invalid_argument(format("--host {}: {}", host, error.message()));
  }
  const asio::ip::tcp::endpoint wanted = found.begin()->endpoint();
  OCTAVO_TRY(bind_to(wanted, format("{} port {}", host, options.port)));
  asio::ip::tcp::endpoint bound;
  const auto actual = acceptor_->local_endpoint(error);
  bound.resize(std::min(actual.size(), bound.capacity()));
  std::copy_n(static_cast<const char*>(static_cast<const void*>(actual.data())), bound.size(),
              static_cast<char*>(static_cast<void*>(bound.data())));
  const std::string shown = host.find(':') == std::string::npos ? host : format("[{}]", host);
  address_ = format("{}://{}:{}", tls_ ? "https" : "http", shown, bound.port());
  return {};
}

Status AsioServer::bind_uds() {
  const std::string& path = context_.options.uds;
  struct stat status {};
  // A socket that an earlier run left behind would otherwise keep the address taken.
  if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return invalid_argument(
        format("--uds: the path is longer than {} bytes", sizeof(sockaddr_un::sun_path) - 1));
  }
  OCTAVO_TRY(bind_to(asio::local::stream_protocol::endpoint(path), path));
  address_ = "unix:" + path;
  return {};
}

Status AsioServer::load_certificate() {
  const HttpServerOptions& options = context_.options;
  if (options.ssl_certfile.empty() || options.ssl_keyfile.empty()) {
    return invalid_argument("--ssl-keyfile and --ssl-certfile are needed together");
  }
  tls_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                    asio::ssl::context::no_tlsv1_1);
  Error error;
  // Without it OpenSSL would ask on the terminal for the password of a key that has one.
  tls_->set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  tls_->use_certificate_chain_file(options.ssl_certfile, error);
  if (error) {
    return invalid_argument(format("--ssl-certfile {}: {}", options.ssl_certfile, error.message()));
  }
  tls_->use_private_key_file(options.ssl_keyfile, asio::ssl::context::pem, error);
  if (error) {
    return invalid_argument(format("--ssl-keyfile {}: {}", options.ssl_keyfile, error.message()));
  }
  if (!options.ssl_ca_certs.empty()) tls_->load_verify_file(options.ssl_ca_certs, error);
  if (error) {
    return invalid_argument(format("--ssl-ca-certs {}: {}", options.ssl_ca_certs, error.message()));
  }
  if (options.ssl_require_client_cert) {
    tls_->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  }
  return {};
}

Status AsioServer::start() {
  Error error;
  acceptor_->listen(asio::socket_base::max_listen_connections, error);
  if (error) return unavailable(format("cannot listen on {}: {}", address_, error.message()));
  accept();
  for (const auto& loop : loops_) loop->start();
  return {};
}

void AsioServer::accept() {
  IoLoop& loop = *loops_[num_accepted_++ % loops_.size()];
  acceptor_->async_accept(loop.context(), [this, &loop](Error error, Socket socket) {
    if (!acceptor_->is_open()) return;
    if (!error) {
      accept();  // first: the next connection comes even where memory does not suffice for this one
      return accepted(std::move(socket), loop);
    }
    // Most likely no file descriptor is left: connections that end give some back.
    log_warning("cannot accept a connection: {}", error.message());
    retry_->expires_after(std::chrono::milliseconds(100));
    retry_->async_wait([this](Error stopped) {
      if (!stopped && acceptor_->is_open()) accept();
    });
  });
}

// Once a second at most: who opens connections in a loop must not fill the log.
void AsioServer::log_refused() {
  ++num_refused_unlogged_;
  const double now = now_seconds();
  if (now < next_refused_log_s_) return;
  log_warning("connections refused: {}, with {} open", num_refused_unlogged_,
              context_.num_connections.load());
  num_refused_unlogged_ = 0;
  next_refused_log_s_ = now + 1;
}

void AsioServer::accepted(Socket socket, IoLoop& loop) {
  const bool is_refused = context_.num_connections >= context_.options.max_connections;
  if (is_refused) {
    log_refused();
    if (context_.num_refused >= kMaxRefused) return;  // closes it
  }
  Error ignored;
  if (context_.options.uds.empty()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  std::unique_ptr<Transport> transport;
  if (tls_) {
    transport = std::make_unique<TlsTransport>(std::move(socket), *tls_);
  } else {
    transport = std::make_unique<PlainTransport>(std::move(socket));
  }
  const auto connection =
      std::make_shared<Connection>(std::move(transport), loop, context_, is_refused);
  if (connections_.size() >= 2 * num_swept_ + 16) {  // seldom: it looks at all of them
    std::erase_if(connections_, [](const auto& entry) { return entry.expired(); });
    num_swept_ = connections_.size();
  }
  connections_.push_back(connection);
  connection->start();
}

// On the acceptor's loop, so that no connection comes in between.
template <typename Fn>
void AsioServer::close_acceptor_and(Fn fn) {
  loops_[0]->post([this, fn] {
    Error ignored;
    acceptor_->close(ignored);
    retry_->cancel();
    for (const auto& entry : connections_) {
      if (const auto connection = entry.lock()) fn(*connection);
    }
  });
}

void AsioServer::drain() {
  context_.draining = true;
  close_acceptor_and([](Connection& connection) { connection.close_if_idle(); });
}

void AsioServer::stop() {
  close_acceptor_and([](Connection& connection) { connection.close_soon(); });
  for (const auto& loop : loops_) loop->join();
  if (!context_.options.uds.empty() && !address_.empty()) {
    ::unlink(context_.options.uds.c_str());
    address_.clear();
  }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::create(const HttpServerOptions& options,
                                                       ExchangeHandler handler) {
  auto server = std::make_unique<AsioServer>(options, std::move(handler));
  OCTAVO_TRY(server->bind());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace octavo::server
