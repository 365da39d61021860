#include "server/openai/generation.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"

namespace octavo::server {
namespace {

constexpr const char* kGroupHeader = "X-Octavo-Group";

void add_group_header(HttpResponse& response, App& app, size_t group) {
  if (app.groups().any()) response.headers.emplace_back(kGroupHeader, app.groups().name(group));
}

HttpResponse group_error(App& app, size_t group, const Status& status, const std::string& param) {
  HttpResponse response = error_response(status, param);
  add_group_header(response, app, group);
  return response;
}

// The group that the client names, or the one of its user, session or request, in this order.
Result<size_t> choose_group(App& app, const HttpRequest& request, const JsonObject& body) {
  const Groups& groups = app.groups();
  if (!groups.any()) return size_t{0};
  const std::string* wanted = find_header(request.headers, kGroupHeader);
  if (wanted != nullptr) return groups.find(*wanted);
  const auto text_of = [&](const char* field) {
    const Json* value = body.if_contains(field);
    const bool is_text = value != nullptr && value->is_string();
    return is_text ? std::string(to_view(value->get_string())) : std::string();
  };
  const std::string user = text_of("user");
  if (!user.empty()) return groups.choose(user);
  const std::string* session = find_header(request.headers, "X-Session-ID");
  if (session != nullptr && !session->empty()) return groups.choose(*session);
  return groups.choose(make_response_id("", request, text_of("request_id")));
}

// All members but those of start() belong to the exchange's tasks.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(App& app, std::shared_ptr<Exchange> exchange, size_t group, GenerationJob job)
      : app_(app),
        exchange_(std::move(exchange)),
        group_(group),
        job_(std::move(job)),
        submit_time_(now_seconds()),
        outputs_(job_.requests.size()),
        last_event_(job_.requests.size(), 0) {
    for (const EngineRequest& request : job_.requests) {
      params_.push_back({request.n, request.sampling.max_tokens});
    }
  }

  void start(const JsonObject& body);

 private:
  struct Params {
    int32_t n;
    std::optional<int64_t> max_tokens;
  };

  void submitted(const std::vector<RequestId>& ids, const Status& status, const std::string& param);
  void on_event(size_t prompt_idx, RequestOutput output, double time);
  void take_event(size_t prompt_idx, RequestOutput output, double time);
  void observe(size_t prompt_idx, const RequestOutput& output, double time);
  void begin_stream();
  void finish(std::string last_text);
  void fail(const Status& status, const std::string& param = "");
  void cancel();

  App& app_;
  std::shared_ptr<Exchange> exchange_;
  const size_t group_;
  GenerationJob job_;
  const double submit_time_;
  std::vector<Params> params_;
  std::vector<RequestId> ids_;
  std::vector<RequestOutput> outputs_;  // the last ones
  std::vector<double> last_event_;      // when tokens came
  size_t num_finished_ = 0;
  bool begun_ = false;
  bool ended_ = false;  // the response is complete, or nobody wants it
};

void Generation::start(const JsonObject& body) {
  std::vector<RequestId> ids;
  Status status;
  for (size_t i = 0; i < job_.requests.size() && status.ok(); ++i) {
    auto id = app_.engine().submit(
        std::move(job_.requests[i]), [self = shared_from_this(), i](const RequestOutput& output) {
          self->exchange_->post([self, i, copy = output, time = now_seconds()]() mutable {
            self->on_event(i, std::move(copy), time);
          });
        });
    if (id.ok()) {
      ids.push_back(*id);
    } else {
      status = id.status();
    }
  }
  exchange_->post([self = shared_from_this(), ids, status, param = param_of(status, body)] {
    self->submitted(ids, status, param);
  });
}

// Events may have come before.
void Generation::submitted(const std::vector<RequestId>& ids, const Status& status,
                           const std::string& param) {
  ids_ = ids;
  if (!status.ok()) return fail(status, param);
  if (ended_) return cancel();  // where one failed, the others are not wanted
  app_.add_running(job_.id, ids_);
  exchange_->on_gone([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    log_debug("the client of {} is gone", self->job_.id);
    self->ended_ = true;
    self->cancel();
    self->app_.remove_running(self->ids_);
  });
  begin_stream();
}

void Generation::begin_stream() {
  if (!job_.stream || begun_ || ended_) return;
  begun_ = true;
  HttpResponse head;
  head.headers.emplace_back("Content-Type", job_.format->stream_content_type());
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold events back
  if (app_.config().enable_request_id_headers) head.headers.emplace_back("X-Request-Id", job_.id);
  add_group_header(head, app_, group_);
  exchange_->begin(std::move(head));
}

void Generation::on_event(size_t prompt_idx, RequestOutput output, double time) {
  try {
    take_event(prompt_idx, std::move(output), time);
  } catch (const std::exception& error) {
    log_warning("the answer {} failed: {}", job_.id, error.what());
    fail(internal_error("the server failed at this answer"));
  }
}

void Generation::take_event(size_t prompt_idx, RequestOutput output, double time) {
  observe(prompt_idx, output, time);
  if (ended_) return;
  // A request that was ended on purpose has the answer that it had, with "abort" as its reason.
  if (!output.status.ok() && output.status.code() != StatusCode::kCancelled) {
    return fail(output.status);
  }
  std::string text;  // that it adds to a stream
  if (job_.stream) {
    begin_stream();
    job_.format->append_event(text, prompt_idx, output);
  }
  if (output.finished) {
    outputs_[prompt_idx] = std::move(output);
    if (++num_finished_ == outputs_.size()) return finish(std::move(text));
  }
  if (!text.empty()) exchange_->write(std::move(text));
}

void Generation::observe(size_t prompt_idx, const RequestOutput& output, double time) {
  int64_t new_tokens = 0;
  for (const CompletionOutput& answer : output.outputs) {
    new_tokens = std::max(new_tokens, static_cast<int64_t>(answer.token_ids.size()));
  }
  double& last = last_event_[prompt_idx];
  if (job_.stream && new_tokens > 0) {
    if (last > 0) app_.metrics().observe_inter_token_latency(group_, time - last);
    last = time;
  }
  if (!output.finished) return;
  const Params& params = params_[prompt_idx];
  FinishedRequest finished;
  finished.e2e_s = time - job_.arrival;
  finished.before_submit_s = submit_time_ - job_.arrival;
  finished.metrics = output.metrics;
  finished.usage = output.usage;
  finished.n = params.n;
  finished.max_tokens = params.max_tokens;
  finished.has_first_token = output.usage.completion_tokens > 0;
  // Of a stream with several answers: as if they were equally long.
  finished.max_num_generation_tokens =
      job_.stream ? (output.usage.completion_tokens + params.n - 1) / params.n : new_tokens;
  if (!job_.stream && new_tokens > 1) {
    app_.metrics().observe_inter_token_latency(
        group_, output.metrics.decode_s / static_cast<double>(new_tokens - 1), new_tokens - 1);
  }
  finished.finished_reason = "error";
  if (output.status.code() == StatusCode::kCancelled) {
    finished.finished_reason = "abort";
  } else if (output.status.ok() && !output.outputs.empty() && output.outputs.back().finish_reason) {
    finished.finished_reason = finish_reason_name(*output.outputs.back().finish_reason);
  }
  app_.metrics().observe_finished(group_, finished);
}

void Generation::finish(std::string last_text) {
  ended_ = true;
  app_.remove_running(ids_);
  if (job_.stream) {
    job_.format->append_end(last_text, total_usage(outputs_));
    return exchange_->end(std::move(last_text));
  }
  HttpResponse response;
  response.headers.emplace_back("Content-Type", job_.format->whole_content_type());
  if (app_.config().enable_request_id_headers) {
    response.headers.emplace_back("X-Request-Id", job_.id);
  }
  add_group_header(response, app_, group_);
  response.body = job_.format->whole(outputs_);
  exchange_->send(std::move(response));
}

void Generation::fail(const Status& status, const std::string& param) {
  if (ended_) return;
  ended_ = true;
  cancel();
  app_.remove_running(ids_);
  if (!begun_) return exchange_->send(group_error(app_, group_, status, param));
  std::string text;
  job_.format->append_error(text, status);
  exchange_->end(std::move(text));
}

void Generation::cancel() {
  for (const RequestId id : ids_) app_.engine().cancel(id);
}

}  // namespace

void answer_generation(App& app, const std::shared_ptr<Exchange>& exchange, MakeJob make_job) {
  const double arrival = now_seconds();
  auto body = parse_body(exchange->request().body);
  if (!body.ok()) return exchange->send(error_response(body.status()));
  const auto group = choose_group(app, exchange->request(), *body);
  if (!group.ok()) return exchange->send(error_response(group.status()));
  app.groups().add_defaults(*body, *group);
  auto job = make_job(app, exchange->request(), *body);
  if (!job.ok()) {
    const std::string param = param_of(job.status(), *body);
    return exchange->send(group_error(app, *group, job.status(), param));
  }
  job->arrival = arrival;
  if (app.is_draining()) {
    return exchange->send(group_error(app, *group, unavailable("the server is shutting down"), ""));
  }
  if (app.config().enable_log_requests) {
    log_info("Received request {}: {} prompts", job->id, job->requests.size());
  }
  std::make_shared<Generation>(app, exchange, *group, std::move(*job))->start(*body);
}

Status check_num_answers(App& app, int32_t n) {
  const int64_t most = app.engine().config().max_num_seqs;
  if (n >= 1 && n <= most) return {};
  return invalid_argument(format("n is {}, which must lie in 1..{} (--max-num-seqs)", n, most));
}

std::string make_response_id(const char* prefix, const HttpRequest& request,
                             const std::string& request_id) {
  constexpr size_t kMaxIdBytes = 256;
  const std::string* header = find_header(request.headers, "X-Request-Id");
  std::string id = header != nullptr ? *header : request_id;
  id.resize(std::min(id.size(), kMaxIdBytes));
  if (id.empty()) {
    thread_local std::mt19937_64 random{std::random_device{}()};
    id = format("{:016x}{:016x}", random(), random());
  }
  return prefix + id;
}

void append_sse(std::string& out, const JsonObject& data) {
  out += "data: ";
  out += dump_json(data);
  out += "\n\n";
}

int64_t unix_time() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

Usage total_usage(const std::vector<RequestOutput>& outputs) {
  Usage total;
  for (const RequestOutput& output : outputs) {
    total.prompt_tokens += output.usage.prompt_tokens;
    total.completion_tokens += output.usage.completion_tokens;
    total.cached_tokens += output.usage.cached_tokens;
  }
  return total;
}

JsonObject usage_json(const Usage& usage, const ServerConfig& config) {
  JsonObject object{{"prompt_tokens", usage.prompt_tokens},
                    {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                    {"completion_tokens", usage.completion_tokens}};
  if (config.enable_prompt_tokens_details) {
    object["prompt_tokens_details"] = JsonObject{{"cached_tokens", usage.cached_tokens}};
  } else {
    object["prompt_tokens_details"] = nullptr;
  }
  return object;
}

}  // namespace octavo::server
