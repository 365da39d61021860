// LocalEngine: the public AsyncEngine: an EngineCore, and the one thread that calls it. What other
// threads want is put into an inbox that the thread empties between two steps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine_core.h"
#include "octavo/engine.h"

namespace octavo::engine {

class LocalEngine final : public AsyncEngine {
 public:
  struct Parts {
    ModelInfo info;
    EngineConfig config;
    EngineCoreConfig core;
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Speculator> speculator;  // may be null
    std::unique_ptr<Tokenizer> tokenizer;    // may be null
    std::function<double()> clock;
  };
  static Result<std::unique_ptr<AsyncEngine>> start(Parts parts);

  explicit LocalEngine(Parts parts);
  ~LocalEngine() override { shutdown(); }
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  const ModelInfo& info() const override { return parts_.info; }
  const EngineConfig& config() const override { return parts_.config; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  Result<RequestId> submit(EngineRequest request, RequestOutputSink sink) override;
  void cancel(RequestId id) override;
  EngineStats stats() const override;
  Status health() const override;
  void pause() override;
  void resume() override;
  Status drain(double timeout_s) override;
  void shutdown() override;
  Status reset_prefix_cache() override;
  Result<std::vector<PageTableRow>> page_table(RequestId id, int32_t index) override;

 private:
  // Something for the thread to do between two steps.
  using Command = std::function<void(EngineCore&)>;
  struct Inbox {
    std::vector<std::unique_ptr<ActiveRequest>> requests;
    int64_t num_tokens = 0;  // of their prompts
    std::vector<Command> commands;
    bool empty() const { return requests.empty() && commands.empty(); }
  };

  void run();
  void step();
  Status why_ended() const;
  bool on_own_thread() const { return std::this_thread::get_id() == thread_id_.load(); }
  bool take_inbox(Inbox& inbox, bool& paused);
  void publish();
  void set_paused(bool paused);
  Status check_running() const;
  Status check_room(int64_t num_prompt_tokens) const;

  // Lets the thread compute `fn(core)` between two steps and waits for it. From the thread itself
  // (a sink) it is computed at once.
  template <typename Fn>
  auto ask(Fn fn) -> decltype(fn(std::declval<EngineCore&>()));

  Parts parts_;
  EngineCore core_;  // of the thread, but for prepare()

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable idle_;
  Inbox inbox_;
  RequestId next_id_ = 1;
  bool paused_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  bool stopped_ = false;  // the thread takes nothing from the inbox any more
  Status failure_;        // why it stopped by itself; written by the thread
  EngineStats stats_;     // as of the end of the last step, with what it took from the inbox since
  int64_t num_refused_ = 0;
  double last_step_ = 0;

  std::mutex join_mutex_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;  // once it runs
};

}  // namespace octavo::engine
