#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/clock.h"

namespace octavo::server {
namespace {

constexpr double kLimitS = 0.3;
// Machines that also build are slow; what must end does not end within this only by a bug.
constexpr double kPatienceS = 20;

class Client {
 public:
  explicit Client(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // All that comes until the server closes, and whether it does before `patience_s` are over.
  bool read_to_end(std::string& text, double patience_s = kPatienceS) {
    const double end = now_seconds() + patience_s;
    while (now_seconds() < end) {
      pollfd wait{socket_, POLLIN, 0};
      if (poll(&wait, 1, 50) == 0) continue;
      char buffer[4096];
      const ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
      if (count <= 0) return true;
      text.append(buffer, static_cast<size_t>(count));
    }
    return false;
  }

 private:
  int socket_;
};

std::unique_ptr<HttpServer> start(HttpServerOptions options, ExchangeHandler handler = {}) {
  options.host = "127.0.0.1";
  options.port = 0;
  if (!handler) {
    handler = [](const std::shared_ptr<Exchange>& exchange) { exchange->send({.body = "ok"}); };
  }
  auto server = HttpServer::create(options, std::move(handler));
  EXPECT_TRUE(server.ok());
  EXPECT_TRUE((*server)->start().ok());
  return std::move(server).value();
}

TEST(HttpServer, ARequestThatComesTooSlowlyIsCutOff) {
  const auto server = start({.receive_timeout_s = kLimitS});
  Client client(server->address());
  const double begin = now_seconds();
  // A byte now and then must not extend the time.
  std::string text;
  bool closed = client.send("GET / HTTP/1.1\r\nX: ");
  for (closed = false; !closed && now_seconds() - begin < kPatienceS;) {
    closed = !client.send("y") || client.read_to_end(text, kLimitS / 4);
  }
  EXPECT_TRUE(closed);
  EXPECT_GE(now_seconds() - begin, kLimitS * 0.9);
  EXPECT_EQ(text, "");
}

TEST(HttpServer, IdleConnectionsAreClosed) {
  const auto server = start({.idle_timeout_s = kLimitS});
  Client silent(server->address());
  Client served(server->address());
  ASSERT_TRUE(served.send("GET / HTTP/1.1\r\n\r\n"));
  std::string text;
  EXPECT_TRUE(silent.read_to_end(text));
  EXPECT_EQ(text, "");
  EXPECT_TRUE(served.read_to_end(text));
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
}

TEST(HttpServer, AClientThatTakesNothingIsCutOff) {
  // A response within max_unsent_bytes, larger than what sockets buffer.
  const auto server =
      start({.send_timeout_s = kLimitS}, [](const std::shared_ptr<Exchange>& exchange) {
        exchange->send({.body = std::string(64 << 20, 'x')});
      });
  Client client(server->address());
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\n\r\n"));
  std::this_thread::sleep_for(std::chrono::duration<double>(4 * kLimitS));
  std::string text;
  EXPECT_TRUE(client.read_to_end(text));
  EXPECT_LT(text.size(), size_t{64} << 20);
}

TEST(HttpServer, MoreConnectionsThanAllowedAreClosed) {
  const auto server = start({.max_connections = 2});
  const auto is_served = [&](Client& client) {
    std::string text;
    client.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(client.read_to_end(text));
    return text.starts_with("HTTP/1.1 200 OK\r\n");
  };
  Client first(server->address());
  Client second(server->address());
  Client third(server->address());
  EXPECT_FALSE(is_served(third));
  EXPECT_TRUE(is_served(first));
  EXPECT_TRUE(is_served(second));
  // Their places become free again.
  bool served = false;
  for (const double begin = now_seconds(); !served && now_seconds() - begin < kPatienceS;) {
    Client next(server->address());
    served = is_served(next);
  }
  EXPECT_TRUE(served);
}

}  // namespace
}  // namespace octavo::server
