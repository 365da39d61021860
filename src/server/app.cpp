#include "server/app.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "server/openai/error.h"
#include "server/routes.h"

namespace octavo::server {
namespace {

constexpr size_t kMaxQueuedTasks = 1024;
// A step that takes longer is taken for a hang: /health says so.
constexpr double kHungStepS = 120;

int num_workers() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U));
}

// What no prompt within the context exceeds. Tokenizers that normalise text shorten it, hardly ever
// to a quarter.
size_t max_prompt_bytes(AsyncEngine& engine) {
  constexpr size_t kNormalization = 4;
  const Tokenizer* tokenizer = engine.tokenizer();
  size_t longest = 1;
  const int64_t vocab_size = tokenizer == nullptr ? 0 : tokenizer->vocab_size();
  for (TokenId id = 0; id < vocab_size; ++id) {
    longest = std::max(longest, tokenizer->token_bytes(id, true).size());
  }
  return kNormalization * longest * static_cast<size_t>(engine.info().max_model_len);
}

void run_handler(App& app, const Route& route, const std::shared_ptr<Exchange>& exchange) {
  try {
    route.handler(app, exchange);
  } catch (const std::exception& error) {
    log_warning("{} {} failed: {}", exchange->request().method, exchange->request().path,
                error.what());
    exchange->send(error_response(internal_error("the server failed at this request")));
  }
}

}  // namespace

App::App(AsyncEngine& engine, ServerConfig config)
    : engine_(engine),
      config_(std::move(config)),
      max_prompt_bytes_(max_prompt_bytes(engine)),
      groups_(config_.groups),
      metrics_(config_.served_model_names.at(0), engine.info().max_model_len,
               config_.show_hidden_metrics, groups_),
      tasks_(num_workers(), kMaxQueuedTasks) {
  content_kinds_[config_.chat_template] = content_kinds(config_.chat_template);
  for (const Group& group : config_.groups.groups) {
    const Json* given = group.defaults.if_contains("chat_template");
    if (given == nullptr) continue;
    const std::string chat_template(to_view(given->get_string()));
    content_kinds_[chat_template] = content_kinds(chat_template);
  }
}

ContentKinds App::content_kinds(const std::string& chat_template) const {
  const auto known = content_kinds_.find(chat_template);
  if (known != content_kinds_.end()) return known->second;
  return choose_content_kinds(engine_.tokenizer(), chat_template,
                              config_.chat_template_content_format);
}

void App::handle(const std::shared_ptr<Exchange>& exchange) {
  const auto answer = std::make_shared<RoutedExchange>(*this, exchange);
  const Route* route = answer->find_route();
  if (route == nullptr) return;  // answered
  if (!route->is_slow) return run_handler(*this, *route, answer);
  if (!tasks_.push([this, route, answer] { run_handler(*this, *route, answer); })) {
    answer->send(error_response(resource_exhausted("the server is overloaded: try again later")));
  }
}

Result<const Tokenizer*> App::tokenizer() const {
  if (engine_.tokenizer() != nullptr) return engine_.tokenizer();
  return invalid_argument("this model has no tokenizer: send token ids");
}

Status App::check_prompt_size(size_t size_bytes) const {
  if (size_bytes <= max_prompt_bytes_) return {};
  return invalid_argument(
      format("This model's maximum context length is {} tokens. However, your request has {} bytes "
             "of text, more than any tokens of that number. Please reduce the length of the input "
             "messages.",
             engine_.info().max_model_len, size_bytes));
}

Status App::health() const {
  if (is_draining_) return unavailable("the server is shutting down");
  OCTAVO_TRY(engine_.health());
  const EngineStats stats = engine_.stats();
  if (!is_paused_ && stats.last_step_age_s > kHungStepS) {
    return unavailable(
        format("the engine has not made a step for {:.0f} s", stats.last_step_age_s));
  }
  return {};
}

void App::pause() {
  is_paused_ = true;
  engine_.pause();
}

void App::resume() {
  engine_.resume();
  is_paused_ = false;
}

void App::add_running(const std::string& id, const std::vector<RequestId>& engine_ids) {
  const std::lock_guard lock(mutex_);
  running_.emplace(engine_ids.at(0), Running{id, engine_ids});
}

void App::remove_running(const std::vector<RequestId>& engine_ids) {
  const std::lock_guard lock(mutex_);
  if (!engine_ids.empty()) running_.erase(engine_ids[0]);
}

void App::abort(const std::string& id) {
  const std::lock_guard lock(mutex_);
  for (const auto& [first, running] : running_) {
    if (running.id != id) continue;
    for (const RequestId engine_id : running.engine_ids) engine_.cancel(engine_id);
  }
}

void App::abort_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [first, running] : running_) {
    for (const RequestId engine_id : running.engine_ids) engine_.cancel(engine_id);
  }
}

int64_t App::num_running() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(running_.size());
}

}  // namespace octavo::server
