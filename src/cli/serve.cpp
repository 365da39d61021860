// `octavo serve`: the HTTP server.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/ab_config.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/engine_command.h"
#include "cli/message.h"
#include "server/app.h"

namespace octavo::cli {
namespace {

constexpr double kStatsIntervalS = 10;
constexpr double kHealthIntervalS = 1;

std::atomic<bool> g_is_serving = false;
std::atomic<bool> g_wants_reload = false;
int g_stop_signals = -1;  // an eventfd: how many came while it serves

// Before that the process ends at once, as a shell reports it: loading takes minutes.
void on_stop_signal(int signal) {
  if (!g_is_serving) {
    constexpr std::string_view kMessage = "octavo: stopped while the model was loading\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(128 + signal);
  }
  const int saved = errno;
  constexpr uint64_t kOne = 1;
  [[maybe_unused]] const ssize_t written = write(g_stop_signals, &kOne, sizeof(kOne));
  errno = saved;
}

Status catch_stop_signals() {
  g_stop_signals = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (g_stop_signals < 0) return unavailable(format("eventfd: {}", std::strerror(errno)));
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  return {};
}

// SIGHUP asks for the groups' file anew, at any time after the flags are read; without groups it
// ends the process, as everywhere.
Status catch_reload_signal(const ServeOptions& options) {
  if (options.ab_config.empty()) return {};
  struct sigaction action {};
  action.sa_handler = [](int) { g_wants_reload = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
  return {};
}

void reload_groups(const std::string& path, server::Groups& groups) {
  if (!is_ab_config_file(path)) {
    return log_warning("SIGHUP changes nothing: --ab-config is no file that could be read again");
  }
  const auto config = read_ab_config(path);
  const Status status = config.ok() ? groups.set_weights(*config) : config.status();
  if (!status.ok()) return log_warning("{} was not taken: {}", path, status.message());
  std::string list;
  for (const server::Group& group : config->groups) {
    list += format(" {}={}", group.name, group.weight);
  }
  log_info("{}: weights are now{}", path, list);
}

// Whether a stop signal came within `seconds`.
bool wait_for_signal(double seconds) {
  const double end = now_seconds() + seconds;
  for (;;) {
    pollfd stop = {.fd = g_stop_signals, .events = POLLIN, .revents = 0};
    const double left_ms = std::ceil(std::max(0.0, end - now_seconds()) * 1e3);
    const int ready = poll(&stop, 1, static_cast<int>(left_ms));
    uint64_t one = 0;
    if (ready > 0) return read(g_stop_signals, &one, sizeof(one)) == sizeof(one);
    if (ready == 0 || errno != EINTR) return false;
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

// Until a stop signal comes, which is no error, or the engine has stopped by itself: then whoever
// watches over the process can start another one.
Status serve_until_end(AsyncEngine& engine, server::App& app, const ServeOptions& options) {
  StatsLog log;
  double last = now_seconds();
  while (!wait_for_signal(kHealthIntervalS)) {
    OCTAVO_TRY(engine.health());
    if (g_wants_reload.exchange(false)) reload_groups(options.ab_config, app.groups());
    const double now = now_seconds();
    if (now - last < kStatsIntervalS) continue;
    if (!options.disable_log_stats) log.write(engine.stats(), now - last);
    last = now;
  }
  return {};
}

// Lets what runs go on until it has ended, the time is up, or a second signal comes.
void drain(AsyncEngine& engine, server::App& app, server::HttpServer& http, double timeout_s) {
  app.set_draining();
  http.drain();
  log_info("shutting down: {} requests may go on for {} s", http.num_exchanges(), timeout_s);
  const double end = now_seconds() + timeout_s;
  while (http.num_exchanges() > 0 && now_seconds() < end) {
    if (wait_for_signal(0.02)) break;
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
  auto engine = AsyncEngine::create(path, options.engine);
  if (!engine.ok()) return fail(engine.status());
  server::App served(**engine, options.server);
  app = &served;
  g_is_serving = true;
  const Status started = (*http)->start();
  if (!started.ok()) return fail(started);
  log_info("{} ({}) is ready after {:.1f} s; listening on {}", options.model,
           (*engine)->info().architecture, now_seconds() - start, (*http)->address());
  const Status ended = serve_until_end(**engine, served, options);
  drain(**engine, served, **http, options.shutdown_timeout_s);
  (*http)->stop();
  served.stop();
  return ended.ok() ? kExitOk : fail(ended);
}

}  // namespace

int run_serve(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::find(arguments.begin(), arguments.end(), "--help-markdown") != arguments.end()) {
    return print_out(serve_flags_markdown()) ? kExitOk : kExitFailed;
  }
  const auto setup = set_up_engine(kServeCommand, arguments, catch_reload_signal);
  if (const int* exit_code = std::get_if<int>(&setup)) return *exit_code;
  const Status caught = catch_stop_signals();
  if (!caught.ok()) return fail(caught);
  signal(SIGPIPE, SIG_IGN);
  const auto& [options, path] = std::get<EngineSetup>(setup);
  return serve(options, path);
}

}  // namespace octavo::cli
