// `octavo serve`: the HTTP server.
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/engine_command.h"
#include "cli/message.h"
#include "server/app.h"

namespace octavo::cli {
namespace {

constexpr double kStatsIntervalS = 10;

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// The stop signal that came within `seconds`, or 0.
int wait_for_signal(double seconds) {
  const sigset_t signals = stop_signals();
  const double end = now_seconds() + seconds;
  do {
    const double left = std::max(0.0, end - now_seconds());
    timespec time{};
    time.tv_sec = static_cast<time_t>(left);
    time.tv_nsec = static_cast<long>((left - static_cast<double>(time.tv_sec)) * 1e9);
    const int signal = sigtimedwait(&signals, nullptr, &time);
    if (signal > 0) return signal;
    if (errno != EINTR) return 0;
  } while (now_seconds() < end);
  return 0;
}

// Ends the process at a stop signal: while a model loads there is nobody to answer.
void exit_at_signal(const std::stop_token& loaded) {
  while (!loaded.stop_requested()) {
    const int signal = wait_for_signal(0.02);
    if (signal == 0) continue;
    log_info("stopped while the model was loading");
    std::_Exit(128 + signal);
  }
}

// The line that scripts made for vLLM read.
class StatsLog {
 public:
  void write(const EngineStats& stats, double seconds) {
    const bool idle = stats.prompt_tokens == last_.prompt_tokens &&
                      stats.generation_tokens == last_.generation_tokens &&
                      stats.num_requests_running + stats.num_requests_waiting == 0;
    if (!(idle && was_idle_)) {
      log_info(
          "Engine 000: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
          "tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, Prefix cache "
          "hit rate: {:.1f}%",
          rate(stats.prompt_tokens - last_.prompt_tokens, seconds),
          rate(stats.generation_tokens - last_.generation_tokens, seconds),
          stats.num_requests_running, stats.num_requests_waiting,
          percent(stats.num_used_blocks, stats.num_blocks),
          percent(stats.prefix_cache_hits, stats.prefix_cache_queries));
    }
    was_idle_ = idle;
    last_ = stats;
  }

 private:
  static double rate(int64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
  static double percent(int64_t part, int64_t whole) {
    return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
  EngineStats last_;
  bool was_idle_ = true;
};

void serve_until_signal(AsyncEngine& engine, bool log_stats) {
  StatsLog log;
  double last = now_seconds();
  while (wait_for_signal(kStatsIntervalS) == 0) {
    const double now = now_seconds();
    if (log_stats) log.write(engine.stats(), now - last);
    last = now;
  }
}

// Lets what runs go on until it has ended, the time is up, or a second signal comes.
void drain(AsyncEngine& engine, server::App& app, server::HttpServer& http, double timeout_s) {
  app.set_draining();
  http.drain();
  log_info("shutting down: {} requests may go on for {} s", http.num_exchanges(), timeout_s);
  const double end = now_seconds() + timeout_s;
  while (http.num_exchanges() > 0 && now_seconds() < end) {
    if (wait_for_signal(0.02) != 0) break;
  }
  app.abort_all();
  engine.shutdown();
  // The answers of what was aborted are on their way.
  const double sent = now_seconds() + 1;
  while (http.num_exchanges() > 0 && now_seconds() < sent) wait_for_signal(0.01);
}

int serve(const ServeOptions& options, const std::string& path) {
  server::App* app = nullptr;  // set before anybody can connect
  auto http = server::HttpServer::create(
      options.http, [&app](const std::shared_ptr<server::Exchange>& e) { app->handle(e); });
  if (!http.ok()) return fail(http.status());
  const double start = now_seconds();
  std::jthread loading(exit_at_signal);
  auto engine = AsyncEngine::create(path, options.engine);
  loading = {};
  if (!engine.ok()) return fail(engine.status());
  server::App served(**engine, options.server);
  app = &served;
  const Status started = (*http)->start();
  if (!started.ok()) return fail(started);
  log_info("{} ({}) is ready after {:.1f} s; listening on {}", options.model,
           (*engine)->info().architecture, now_seconds() - start, (*http)->address());
  serve_until_signal(**engine, !options.disable_log_stats);
  drain(**engine, served, **http, options.shutdown_timeout_s);
  (*http)->stop();
  served.stop();
  return kExitOk;
}

}  // namespace

int run_serve(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::find(arguments.begin(), arguments.end(), "--help-markdown") != arguments.end()) {
    return print_out(serve_flags_markdown()) ? kExitOk : kExitFailed;
  }
  const auto setup = set_up_engine(kServeCommand, arguments, nullptr);
  if (const int* exit_code = std::get_if<int>(&setup)) return *exit_code;
  // Before any thread starts, so that all inherit it and only this one gets the signals.
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return serve(std::get<EngineSetup>(setup).options, std::get<EngineSetup>(setup).path);
}

}  // namespace octavo::cli
