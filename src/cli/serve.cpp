// `octavo serve`: the HTTP server.
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/resolve_model.h"
#include "cli/serve_flags.h"
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

// Whether a stop signal came within `seconds`.
bool wait_for_signal(double seconds) {
  const sigset_t signals = stop_signals();
  const double end = now_seconds() + seconds;
  do {
    const double left = std::max(0.0, end - now_seconds());
    timespec time{};
    time.tv_sec = static_cast<time_t>(left);
    time.tv_nsec = static_cast<long>((left - static_cast<double>(time.tv_sec)) * 1e9);
    if (sigtimedwait(&signals, nullptr, &time) > 0) return true;
    if (errno != EINTR) return false;
  } while (now_seconds() < end);
  return false;
}

Result<LogLevel> parse_log_level(const std::string& name) {
  if (name == "debug" || name == "trace") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error" || name == "critical") return LogLevel::kError;
  return invalid_argument(format("--uvicorn-log-level: '{}' is no level", name));
}

// The sampling defaults that a model brings: generation_config.json of its folder.
Result<JsonObject> default_sampling(const ServeOptions& options, const std::string& model_path) {
  JsonObject defaults;
  if (options.generation_config != "vllm") {
    const bool is_auto = options.generation_config == "auto";
    const std::string folder = is_auto ? model_path : options.generation_config;
    const std::string path = folder + "/generation_config.json";
    std::ifstream file(path);
    if (!file && !is_auto) return not_found("--generation-config: cannot read " + path);
    if (file) {
      std::ostringstream text;
      text << file.rdbuf();
      const Json json = OCTAVO_TRY(parse_json(text.str(), path));
      if (!json.is_object()) return data_loss(path + ": must be a JSON object");
      defaults = json.get_object();
    }
  }
  for (const auto& entry : options.override_generation_config) {
    defaults[entry.key()] = entry.value();
  }
  return defaults;
}

// Whether, and to which sizes, embeddings may be cut: config.json says so, or --hf-overrides.
Status read_matryoshka(const Json& config, const std::string& source, server::ServerConfig& out) {
  if (json_find(config, "is_matryoshka") != nullptr) {
    out.is_matryoshka = OCTAVO_TRY(json_bool(config, "is_matryoshka", source));
  }
  if (json_find(config, "matryoshka_dimensions") == nullptr) return {};
  out.matryoshka_dimensions.clear();
  for (const Json& size : *OCTAVO_TRY(json_array(config, "matryoshka_dimensions", source))) {
    if (!size.is_int64()) {
      return data_loss(source + ": 'matryoshka_dimensions' must hold whole numbers");
    }
    out.matryoshka_dimensions.push_back(size.get_int64());
  }
  return {};
}

Status read_model_config(const std::string& model_path, server::ServerConfig& out) {
  const std::string path = model_path + "/config.json";
  std::ifstream file(path);
  if (!file) return {};
  std::ostringstream text;
  text << file.rdbuf();
  return read_matryoshka(OCTAVO_TRY(parse_json(text.str(), path)), path, out);
}

// The template that a file holds, or the value itself, which has Jinja's braces or a line's end.
Result<std::string> read_chat_template(const std::string& value) {
  if (value.empty()) return value;
  std::string text = value;
  std::string source = "--chat-template";
  std::ifstream file(value);
  std::error_code ignored;
  if (file && std::filesystem::is_regular_file(value, ignored)) {
    std::ostringstream content;
    content << file.rdbuf();
    text = content.str();
    source = value;
  } else if (value.find_first_of("{}\n") == std::string::npos) {
    return not_found("--chat-template: cannot read " + value);
  }
  OCTAVO_TRY(check_chat_template(text, source));
  return text;
}

Result<ServeOptions> complete(ServeOptions options, const std::string& path) {
  server::ServerConfig& config = options.server;
  config.version = OCTAVO_VERSION;
  constexpr int64_t kMostLogprobs = 20;
  if (config.max_logprobs < 0) config.max_logprobs = kMostLogprobs;  // -1: all that there are
  std::erase(config.api_keys, "");                                   // would let in who sends none
  if (config.served_model_names.empty()) config.served_model_names.push_back(options.model);
  config.default_sampling = OCTAVO_TRY(default_sampling(options, path));
  OCTAVO_TRY(read_model_config(path, config));
  OCTAVO_TRY(read_matryoshka(options.hf_overrides, "--hf-overrides", config));
  config.chat_template = OCTAVO_TRY(read_chat_template(options.chat_template));
  if (!config.root_path.empty() && config.root_path[0] != '/') {
    config.root_path.insert(config.root_path.begin(), '/');
  }
  while (config.root_path.ends_with('/')) config.root_path.pop_back();
  // A step holds at least one token of each sequence; who raises only one of the two means both.
  options.engine.max_num_batched_tokens =
      std::max(options.engine.max_num_batched_tokens, options.engine.max_num_seqs);
  return options;
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
  while (!wait_for_signal(kStatsIntervalS)) {
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
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      return print_out(serve_help()) ? kExitOk : kExitFailed;
    }
    if (argument == "--help-markdown") {
      return print_out(serve_flags_markdown()) ? kExitOk : kExitFailed;
    }
  }
  const auto options = parse_serve_flags(arguments);
  const Status usage =
      options.ok() ? parse_log_level(options->log_level).status() : options.status();
  if (!usage.ok()) {
    print_error(usage.message());
    print_hint("octavo serve --help shows all flags");
    return kExitUsage;
  }
  const auto path = resolve_model(options->model, options->revision);
  if (!path.ok()) return fail(path.status());
  const auto completed = complete(*options, *path);
  if (!completed.ok()) return fail(completed.status());
  set_default_log_level(*parse_log_level(options->log_level));
  // Before any thread starts, so that all inherit it and only this one gets the signals.
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return serve(*completed, *path);
}

}  // namespace octavo::cli
