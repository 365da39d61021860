#include "cli/load_client.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "cli/event_reader.h"
#include "hub/http_streams.h"

namespace octavo::cli {
namespace {

constexpr double kPollS = 0.5;

std::string request_body(const LoadTarget& target, const LoadSample& sample) {
  JsonObject body{{"model", target.model}};
  if (target.is_chat) {
    body["messages"] = JsonArray{JsonObject{{"role", "user"}, {"content", sample.prompt}}};
    body["max_completion_tokens"] = sample.output_len;
    if (target.logprobs) {
      body["logprobs"] = true;
      body["top_logprobs"] = *target.logprobs;
    }
  } else {
    if (sample.token_ids.empty()) {
      body["prompt"] = sample.prompt;
    } else {
      body["prompt"] = JsonArray(sample.token_ids.begin(), sample.token_ids.end());
    }
    body["max_tokens"] = sample.output_len;
    if (target.logprobs) body["logprobs"] = *target.logprobs;
  }
  body["stream"] = true;
  body["stream_options"] = JsonObject{{"include_usage", true}};
  if (target.ignore_eos) body["ignore_eos"] = true;
  for (const auto& entry : target.extra_body) body[entry.key()] = entry.value();
  return dump_json(body);
}

// The text that an event adds, or nullptr: "text" of completions, "content" or "reasoning" of
// chats.
const Json* text_in(const Json& event) {
  const Json* choices = json_find(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return nullptr;
  const Json& choice = choices->get_array()[0];
  const Json* delta = json_find(choice, "delta");
  for (const char* key : {"text", "content", "reasoning", "reasoning_content"}) {
    const Json* text = json_find(delta != nullptr ? *delta : choice, key);
    if (text != nullptr && text->is_string() && !text->get_string().empty()) return text;
  }
  return nullptr;
}

// One request on its way: server-sent events to a record.
class LoadStream final : public hub::StreamSink {
 public:
  LoadStream(LoadRecord& record, int64_t& num_running)
      : record_(record), num_running_(num_running) {
    ++num_running_;
    record_.start_time = now_seconds();
  }

  void on_bytes(std::string_view bytes) override {
    const double now = now_seconds();
    const Status status = reader_.read(bytes, [&](std::string_view data) -> Status {
      take_event(OCTAVO_TRY(parse_json(data, "an event")), now);
      return {};
    });
    if (!status.ok()) fail(std::string(status.message()));
  }

  void on_header(std::string_view value) override { record_.group = value; }

  void on_end(int status, const std::string& failure) override {
    --num_running_;
    record_.latency = (last_ > 0 ? last_ : now_seconds()) - record_.start_time;
    if (!failure.empty()) {
      fail(failure);
    } else if (status != 200) {
      fail(format("HTTP {}: {}", status, reader_.other()));
    } else if (!reader_.done()) {
      fail("the stream ended before [DONE]");
    } else if (num_pieces_ == 0) {
      fail("the answer has no text");
    }
    record_.success = record_.error.empty();
    if (usage_ >= 0) record_.output_len = usage_;
    if (!record_.success) record_.output_len = 0;
  }

 private:
  void fail(std::string error) {
    if (record_.error.empty()) record_.error = std::move(error);
  }

  void take_event(const Json& event, double now) {
    if (const Json* error = json_find(event, "error")) return fail(dump_json(*error));
    if (const Json* text = text_in(event)) {
      record_.text += to_view(text->get_string());
      if (num_pieces_++ == 0) {
        record_.ttft = now - record_.start_time;
      } else {
        record_.itl.push_back(now - last_);
      }
      last_ = now;
      record_.output_len = num_pieces_;
    }
    const Json* usage = json_find(event, "usage");
    if (usage == nullptr) return;
    const auto count = json_int(*usage, "completion_tokens", "usage");
    if (count.ok()) usage_ = *count;
  }

  LoadRecord& record_;
  int64_t& num_running_;
  EventReader reader_;
  double last_ = 0;  // when the last piece came
  int64_t num_pieces_ = 0;
  int64_t usage_ = -1;
};

class BodySink final : public hub::StreamSink {
 public:
  void on_bytes(std::string_view bytes) override { body_ += bytes; }
  void on_end(int status, const std::string& failure) override {
    ended_ = true;
    status_ = status;
    failure_ = failure;
  }

  bool ended_ = false;
  int status_ = 0;
  std::string failure_;
  std::string body_;
};

// Marsaglia and Tsang, 2000; for shapes below 1 by the usual power of a uniform number.
double draw_gamma(Rng& rng, double shape) {
  if (shape < 1) {
    return draw_gamma(rng, shape + 1) * std::pow(1 - rng.next_double(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    const double x = radius * std::cos(2 * M_PI * rng.next_double());
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - rng.next_double()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

void show_progress(size_t done, size_t count, bool last) {
  std::fprintf(stderr, "\r%zu of %zu requests%s", done, count, last ? "\n" : "");
}

}  // namespace

std::vector<double> arrival_times(const LoadTraffic& traffic, size_t count) {
  std::vector<double> times(count, 0);
  if (count == 0 || std::isinf(traffic.request_rate)) return times;
  Rng rng(static_cast<uint64_t>(traffic.seed));
  double time = 0;
  for (double& at : times) {
    time += draw_gamma(rng, traffic.burstiness);
    at = time;
  }
  const double scale = static_cast<double>(count) / traffic.request_rate / time;
  for (double& at : times) at *= scale;
  return times;
}

Result<LoadRun> run_load(const LoadTarget& target, const LoadTraffic& traffic,
                         const std::vector<LoadSample>& samples) {
  std::vector<double> arrivals = arrival_times(traffic, samples.size());
  if (traffic.self_timed) {
    for (size_t i = 0; i < samples.size(); ++i) arrivals[i] = samples[i].arrival_s;
  }
  LoadRun run;
  run.records.resize(samples.size());
  int64_t num_running = 0;
  std::vector<std::unique_ptr<LoadStream>> sinks;  // outlive the streams
  hub::HttpStreams streams;
  std::vector<std::string> headers = target.headers;
  headers.emplace_back("Content-Type: application/json");
  const double start = now_seconds();
  double shown = start;
  size_t next = 0;
  while (next < samples.size() || num_running > 0) {
    const double now = now_seconds() - start;
    const auto may_send = [&] {
      return next < samples.size() &&
             (traffic.max_concurrency == 0 || num_running < traffic.max_concurrency);
    };
    while (may_send() && arrivals[next] <= now) {
      LoadRecord& record = run.records[next];
      record.prompt_len = samples[next].prompt_len;
      record.queue_time = now - arrivals[next];
      std::string body = request_body(target, samples[next]);
      sinks.push_back(std::make_unique<LoadStream>(record, num_running));
      OCTAVO_TRY(
          streams.start({target.url, headers, std::move(body), "X-Octavo-Group"}, *sinks.back()));
      ++next;
    }
    OCTAVO_TRY(streams.poll(may_send() ? std::min(kPollS, arrivals[next] - now) : kPollS));
    if (traffic.show_progress && now_seconds() - shown >= kPollS) {
      shown = now_seconds();
      show_progress(next - static_cast<size_t>(num_running), samples.size(), false);
    }
  }
  if (traffic.show_progress) show_progress(samples.size(), samples.size(), true);
  run.duration_s = now_seconds() - start;
  return run;
}

Result<Json> get_json(const std::string& url, const std::vector<std::string>& headers) {
  BodySink sink;
  hub::HttpStreams streams;
  OCTAVO_TRY(streams.start({url, headers, "", ""}, sink));
  while (!sink.ended_) OCTAVO_TRY(streams.poll(kPollS));
  if (!sink.failure_.empty()) return unavailable(format("{}: {}", url, sink.failure_));
  if (sink.status_ != 200) return unavailable(format("{}: HTTP {}", url, sink.status_));
  return parse_json(sink.body_, url);
}

}  // namespace octavo::cli
