// App: what all handlers share: the engine, the configuration, metrics, worker threads, and which
// generations run.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/content_kinds.h"
#include "server/groups.h"
#include "server/http/exchange.h"
#include "server/server_config.h"
#include "server/serving_metrics.h"
#include "server/task_queue.h"

namespace octavo::server {

class App {
 public:
  // The engine must outlive the App, and be shut down before the App is destroyed.
  App(AsyncEngine& engine, ServerConfig config);
  ~App() { stop(); }
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // An ExchangeHandler: answers, now or later, exactly once.
  void handle(const std::shared_ptr<Exchange>& exchange);

  AsyncEngine& engine() { return engine_; }
  const ServerConfig& config() const { return config_; }
  Groups& groups() { return groups_; }
  ServingMetrics& metrics() { return metrics_; }

  // Whether a template is the server's, or that of a group.
  bool has_template(const std::string& chat_template) const {
    return content_kinds_.contains(chat_template);
  }

  // What a template takes; "" is the model's own.
  ContentKinds content_kinds(const std::string& chat_template) const;

  // The engine's tokenizer, or an error that says there is none.
  Result<const Tokenizer*> tokenizer() const;

  // An error for a prompt that is too large for the context whatever its tokens are: tokenizing it
  // to say so would keep a thread busy for seconds.
  Status check_prompt_size(size_t size_bytes) const;

  // Whether the server is ready for requests; the error says why not.
  Status health() const;

  void set_draining() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }
  void pause();
  void resume();
  bool is_paused() const { return is_paused_; }

  // Generations, which have at least one engine id; clients may give several the same `id`.
  void add_running(const std::string& id, const std::vector<RequestId>& engine_ids);
  void remove_running(const std::vector<RequestId>& engine_ids);
  void abort(const std::string& id);
  void abort_all();
  int64_t num_running() const;

  // Finishes queued work and takes no more.
  void stop() { tasks_.stop(); }

 private:
  AsyncEngine& engine_;
  const ServerConfig config_;
  const size_t max_prompt_bytes_;
  Groups groups_;
  ServingMetrics metrics_;
  std::map<std::string, ContentKinds> content_kinds_;  // by template
  std::atomic<bool> is_draining_ = false;
  std::atomic<bool> is_paused_ = false;
  mutable std::mutex mutex_;  // guards running_
  struct Running {
    std::string id;
    std::vector<RequestId> engine_ids;
  };
  std::map<RequestId, Running> running_;  // by the first engine id
  TaskQueue tasks_;                       // last: its threads use the rest
};

}  // namespace octavo::server
