#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/format.h"

namespace octavo::server {
namespace {

constexpr double kLimitS = 0.3;
// Machines that also build are slow; what must end does not end within this only by a bug.
constexpr double kPatienceS = 20;

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

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

  // Until the first byte of an answer is there; it stays unread.
  bool wait_for_answer() {
    pollfd wait{socket_, POLLIN, 0};
    return poll(&wait, 1, static_cast<int>(kPatienceS * 1000)) == 1;
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
  client.send("GET / HTTP/1.1\r\nX: ");
  bool closed = false;
  while (!closed && now_seconds() - begin < kPatienceS) {
    closed = !client.send("y") || client.read_to_end(text, kLimitS / 4);
  }
  EXPECT_TRUE(closed);
  EXPECT_GE(now_seconds() - begin, kLimitS * 0.9);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 408 Request Timeout\r\n")) << text;
}

// A thread that was held up finds many requests and many passed limits at once. The limit of a
// connection that is older wakes it first, and it looks at 128 sockets before it looks at limits.
TEST(HttpServer, RequestsThatCameBeforeTheIdleLimitAreAnswered) {
  constexpr double kIdleS = 1;
  std::atomic<bool> holding = false;
  std::atomic<bool> all_sent = false;
  const auto server =
      start({.idle_timeout_s = kIdleS}, [&](const std::shared_ptr<Exchange>& exchange) {
        if (exchange->request().path == "/hold") {
          holding = true;
          while (!all_sent) std::this_thread::yield();
          sleep_s(kIdleS);
        }
        exchange->send({.body = "ok"});
      });
  const Client older(server->address());
  sleep_s(kIdleS / 2);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(std::make_unique<Client>(server->address()));
  ASSERT_TRUE(clients.back()->send("GET /hold HTTP/1.1\r\n\r\n"));  // accepted last
  while (!holding) std::this_thread::yield();
  sleep_s(kIdleS * 0.6);
  for (size_t i = 0; i + 1 < clients.size(); ++i) {
    EXPECT_TRUE(clients[i]->send("GET / HTTP/1.1\r\n\r\n"));
  }
  all_sent = true;
  int num_answered = 0;
  for (const auto& client : clients) {
    std::string text;
    EXPECT_TRUE(client->read_to_end(text));
    num_answered += text.starts_with("HTTP/1.1 200 OK\r\n") ? 1 : 0;
  }
  EXPECT_EQ(num_answered, 300);
}

// Around the limit a client gets its answer, or the connection ends before its request was read.
TEST(HttpServer, WhatIsReadAtTheIdleLimitIsAnswered) {
  constexpr int kIdleMs = 20;
  std::atomic<int> num_handled = 0;
  const auto server =
      start({.idle_timeout_s = kIdleMs / 1e3}, [&](const std::shared_ptr<Exchange>& exchange) {
        ++num_handled;
        exchange->send({.body = "ok"});
      });
  int num_answered = 0;
  for (int i = 0; i < 100; ++i) {
    Client client(server->address());
    sleep_s((kIdleMs - 2 + 0.04 * i) / 1e3);
    client.send("GET / HTTP/1.1\r\n\r\n");
    std::string text;
    EXPECT_TRUE(client.read_to_end(text));
    EXPECT_TRUE(text.empty() || text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
    num_answered += text.empty() ? 0 : 1;
  }
  EXPECT_EQ(num_answered, num_handled);
}

TEST(HttpServer, ARequestThatHasBegunIsAnsweredDespiteDrain) {
  std::atomic<int> num_handled = 0;
  const auto server = start({}, [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->send({.body = format("number {};", ++num_handled)});
  });
  Client idle(server->address());
  Client busy(server->address());
  ASSERT_TRUE(idle.send("GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(busy.send("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nX: "));
  while (num_handled < 2) std::this_thread::yield();
  server->drain();
  std::string text;
  EXPECT_TRUE(idle.read_to_end(text));
  EXPECT_EQ(text.find("number 3"), std::string::npos) << text;
  ASSERT_TRUE(busy.send("y\r\n\r\n"));
  text.clear();
  EXPECT_TRUE(busy.read_to_end(text));
  EXPECT_TRUE(text.ends_with("Connection: close\r\n\r\nnumber 3;")) << text;
}

// Who asks on and on and reads nothing must not fill the server's memory with answers.
TEST(HttpServer, APipelineGoesOnAsItsAnswersAreTaken) {
  constexpr int kRequests = 64;
  constexpr size_t kAnswerBytes = 1 << 20;  // of all of them far more than sockets buffer
  std::atomic<int> num_handled = 0;
  const auto server = start({}, [&](const std::shared_ptr<Exchange>& exchange) {
    const bool large = exchange->request().path == "/large";
    num_handled += large ? 1 : 0;
    exchange->send({.body = std::string(large ? kAnswerBytes : 1, 'x')});
  });
  Client greedy(server->address());
  std::string pipeline;
  for (int i = 1; i < kRequests; ++i) pipeline += "GET /large HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(greedy.send(pipeline + "GET /large HTTP/1.1\r\nConnection: close\r\n\r\n"));
  ASSERT_TRUE(greedy.wait_for_answer());
  for (int i = 0; i < kRequests; ++i) {  // the loop comes round at least once for each
    Client other(server->address());
    ASSERT_TRUE(other.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
    std::string text;
    ASSERT_TRUE(other.read_to_end(text));
  }
  EXPECT_LT(num_handled, kRequests / 2);
  std::string text;
  EXPECT_TRUE(greedy.read_to_end(text));
  EXPECT_EQ(num_handled, kRequests);
  EXPECT_GT(text.size(), kRequests * kAnswerBytes);
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
  ASSERT_TRUE(client.wait_for_answer());
  sleep_s(4 * kLimitS);
  std::string text;
  EXPECT_TRUE(client.read_to_end(text));
  EXPECT_LT(text.size(), size_t{64} << 20);
}

TEST(HttpServer, MoreConnectionsThanAllowedAreRefused) {
  const auto server = start({.max_connections = 2});
  const auto ask = [&](Client& client) {
    std::string text;
    client.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(client.read_to_end(text));
    return text;
  };
  const auto is_served = [&](Client& client) {
    return ask(client).starts_with("HTTP/1.1 200 OK\r\n");
  };
  Client first(server->address());
  Client second(server->address());
  Client third(server->address());
  const std::string refusal = ask(third);
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << refusal;
  EXPECT_NE(refusal.find("\r\nRetry-After: 1\r\n"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("ServiceUnavailableError"), std::string::npos) << refusal;
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

// What refusals take is bounded too, and ends by itself.
TEST(HttpServer, AFloodOfConnectionsIsClosed) {
  const auto server = start({.max_connections = 1});
  Client first(server->address());
  std::vector<std::unique_ptr<Client>> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(std::make_unique<Client>(server->address()));
  for (const auto& client : flood) {
    std::string text;
    EXPECT_TRUE(client->read_to_end(text));
    EXPECT_TRUE(text.empty() || text.starts_with("HTTP/1.1 503 ")) << text;
  }
  std::string text;
  first.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(first.read_to_end(text));
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
}

}  // namespace
}  // namespace octavo::server
