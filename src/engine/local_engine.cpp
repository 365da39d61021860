#include "engine/local_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::engine {
namespace {

// Waits end at the latest then, and look again: far deadlines do not overflow a clock.
constexpr double kLongestWaitS = 3600;

std::chrono::duration<double> wait_of(double seconds) {
  return std::chrono::duration<double>(std::min(seconds, kLongestWaitS));
}

}  // namespace

Result<std::unique_ptr<AsyncEngine>> LocalEngine::start(Parts parts) {
  auto engine = std::make_unique<LocalEngine>(std::move(parts));
  try {
    engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted(format("cannot start the engine's thread: {}", error.what()));
  }
  return std::unique_ptr<AsyncEngine>(std::move(engine));
}

LocalEngine::LocalEngine(Parts parts)
    : parts_(std::move(parts)),
      core_(parts_.core, *parts_.executor, parts_.tokenizer.get(), parts_.clock,
            std::move(parts_.speculator)),
      stats_(core_.stats()),
      last_step_(parts_.clock()) {}

// --- any thread ---------------------------------------------------------------------------------

Status LocalEngine::check_running() const {
  if (!stopping_ && !stopped_) return {};
  return failure_.ok() ? unavailable("the engine is shut down")
                       : unavailable("the engine stopped: " + failure_.message());
}

Status LocalEngine::check_room(int64_t num_prompt_tokens) const {
  OCTAVO_TRY(check_running());
  if (draining_) return unavailable("the engine is draining: it takes no more requests");
  const EngineConfig& config = parts_.config;
  const int64_t requests =
      stats_.num_requests_waiting + static_cast<int64_t>(inbox_.requests.size());
  if (requests >= config.max_num_queued_reqs) {
    return resource_exhausted(format("{} requests wait already (max_num_queued_reqs is {})",
                                     requests, config.max_num_queued_reqs));
  }
  const int64_t tokens = stats_.num_tokens_waiting + inbox_.num_tokens;
  if (tokens + num_prompt_tokens <= config.max_num_queued_tokens) return {};
  return resource_exhausted(
      format("{} prompt tokens wait already, {} more are too many (max_num_queued_tokens is {})",
             tokens, num_prompt_tokens, config.max_num_queued_tokens));
}

Result<RequestId> LocalEngine::submit(EngineRequest request, RequestOutputSink sink) {
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  RequestId id = 0;
  const auto refuse = [&](Status status) {
    ++num_refused_;
    return status;
  };
  {
    const std::lock_guard lock(mutex_);
    const Status room = check_room(num_prompt_tokens);
    if (!room.ok()) return refuse(room);
    id = next_id_++;
  }
  auto prepared = core_.prepare(id, std::move(request), std::move(sink));
  if (prepared.ok()) {
    // Before the lock is taken: the callback comes at once where cancel was used already. What is
    // not in the inbox yet is asked again when it is taken out.
    ActiveRequest& active = **prepared;
    active.on_cancel.emplace(active.request.cancel, [this] {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      inbox_.commands.push_back([](EngineCore& core) { core.end_cancelled(); });
      wake_.notify_one();
    });
  }
  const std::lock_guard lock(mutex_);
  if (!prepared.ok()) return refuse(prepared.status());
  const Status room = check_room(num_prompt_tokens);  // others came in the meantime
  if (!room.ok()) return refuse(room);
  ActiveRequest& active = **prepared;
  active.submitted = parts_.clock();
  if (active.request.timeout_s) active.deadline = active.submitted + *active.request.timeout_s;
  inbox_.num_tokens += num_prompt_tokens;
  inbox_.requests.push_back(std::move(*prepared));
  wake_.notify_one();
  return id;
}

void LocalEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  inbox_.commands.push_back(
      [id](EngineCore& core) { core.end(id, cancelled("the request was cancelled")); });
  wake_.notify_one();
}

EngineStats LocalEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.num_requests_waiting += static_cast<int64_t>(inbox_.requests.size());
  stats.num_submitted += static_cast<int64_t>(inbox_.requests.size());
  stats.num_tokens_waiting += inbox_.num_tokens;
  stats.num_refused = num_refused_;
  const bool idle = stats.num_requests_running + stats.num_requests_waiting == 0;
  if (!idle) stats.last_step_age_s = parts_.clock() - last_step_;
  return stats;
}

Status LocalEngine::health() const {
  const std::lock_guard lock(mutex_);
  return check_running();
}

void LocalEngine::set_paused(bool paused) {
  const std::lock_guard lock(mutex_);
  if (paused_) last_step_ = parts_.clock();  // a pause is no hang
  paused_ = paused;
  wake_.notify_one();
}

void LocalEngine::pause() {
  set_paused(true);
}

void LocalEngine::resume() {
  set_paused(false);
}

Status LocalEngine::drain(double timeout_s) {
  if (on_own_thread()) {
    return invalid_argument("drain() in a sink would wait for itself");
  }
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto is_empty = [&] {
    return stopped_ ||
           (inbox_.empty() && stats_.num_requests_running + stats_.num_requests_waiting == 0);
  };
  const double end = parts_.clock() + timeout_s;
  while (!is_empty() && parts_.clock() < end) {
    idle_.wait_for(lock, wait_of(end - parts_.clock()), is_empty);
  }
  if (is_empty()) return {};
  return deadline_exceeded(format("{} requests have not ended after {} s",
                                  stats_.num_requests_running + stats_.num_requests_waiting,
                                  timeout_s));
}

void LocalEngine::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (on_own_thread()) return;  // a sink: it stops after this step
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

template <typename Fn>
auto LocalEngine::ask(Fn fn) -> decltype(fn(std::declval<EngineCore&>())) {
  using Answer = decltype(fn(std::declval<EngineCore&>()));
  if (on_own_thread()) return fn(core_);
  const auto answer = std::make_shared<std::promise<Answer>>();
  auto future = answer->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return unavailable("the engine is shut down");
    inbox_.commands.push_back([answer, fn](EngineCore& core) { answer->set_value(fn(core)); });
    wake_.notify_one();
  }
  return future.get();
}

Status LocalEngine::reset_prefix_cache() {
  return ask([](EngineCore& core) -> Status {
    if (core.reset_prefix_cache()) return {};
    return unavailable("the prefix cache is in use: requests are running");
  });
}

Result<std::vector<PageTableRow>> LocalEngine::page_table(RequestId id, int32_t index) {
  return ask([id, index](EngineCore& core) { return core.page_table(id, index); });
}

// --- the engine's thread ------------------------------------------------------------------------

// Waits until there is something to do. Returns whether to go on after that.
bool LocalEngine::take_inbox(Inbox& inbox, bool& paused) {
  std::unique_lock lock(mutex_);
  while (inbox_.empty() && !stopping_ && !core_.has_news() && (paused_ || !core_.has_requests())) {
    const auto deadline = core_.next_deadline();
    if (!deadline) {
      wake_.wait(lock);
      continue;
    }
    const double left = *deadline - parts_.clock();
    if (left <= 0) break;
    wake_.wait_for(lock, wait_of(left));
  }
  if (!core_.has_requests()) last_step_ = parts_.clock();  // idle until now
  inbox = std::exchange(inbox_, {});
  stats_.num_requests_waiting += static_cast<int64_t>(inbox.requests.size());
  stats_.num_submitted += static_cast<int64_t>(inbox.requests.size());
  stats_.num_tokens_waiting += inbox.num_tokens;
  paused = paused_;
  return !stopping_;
}

void LocalEngine::publish() {
  const EngineStats stats = core_.stats();
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  last_step_ = parts_.clock();
  if (stats.num_requests_running + stats.num_requests_waiting == 0) idle_.notify_all();
}

Status LocalEngine::why_ended() const {
  return failure_.ok() ? cancelled("the engine was shut down")
                       : unavailable("the engine stopped: " + failure_.message());
}

// Whatever goes wrong, every request gets its last event.
void LocalEngine::step() {
  Status failure;
  try {
    core_.step();
    if (core_.broken()) failure = core_.last_failure();
  } catch (const std::exception& error) {
    failure = internal_error(error.what());
  }
  if (failure.ok()) return;
  log_warning("the engine stops: {}", failure.message());
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  stopping_ = true;
}

void LocalEngine::run() {
  thread_id_ = std::this_thread::get_id();
  for (bool go_on = true; go_on;) {
    Inbox inbox;
    bool paused = false;
    go_on = take_inbox(inbox, paused);
    for (auto& request : inbox.requests) core_.add(std::move(request));
    for (const Command& command : inbox.commands) command(core_);
    core_.end_expired();
    if (go_on && !paused && core_.has_requests()) {
      step();
    } else {
      core_.deliver();
    }
    publish();
  }
  core_.deliver();
  core_.end_all(why_ended());
  Inbox rest;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    rest = std::exchange(inbox_, {});
  }
  for (auto& request : rest.requests) core_.add(std::move(request));
  for (const Command& command : rest.commands) command(core_);
  core_.end_all(why_ended());
  publish();
  idle_.notify_all();
}

}  // namespace octavo::engine
