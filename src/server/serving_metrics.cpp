#include "server/serving_metrics.h"

#include <array>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "server/latency_bounds.h"

namespace octavo::server {
namespace {

const std::vector<double> kAnswersBounds{1, 2, 5, 10, 20};
const std::vector<double> kPreemptionBounds{1, 2, 3, 4, 5, 10, 20};

void write_value(std::string& out, std::string_view name, std::string_view type,
                 std::string_view help, std::string_view labels, double value) {
  write_metric_head(out, name, type, help);
  write_sample(out, name, labels, value);
}

}  // namespace

ServingMetrics::ServingMetrics(const std::string& model_name, int64_t max_model_len,
                               bool show_hidden, const Groups& groups)
    : labels_(metric_labels(std::array<std::pair<std::string_view, std::string_view>, 2>{
          {{"engine", "0"}, {"model_name", model_name}}})),
      show_hidden_(show_hidden),
      groups_(groups),
      prompt_tokens_(one_two_five_bounds(static_cast<double>(max_model_len))),
      generation_tokens_(prompt_tokens_),
      max_generation_tokens_(prompt_tokens_),
      max_tokens_(prompt_tokens_),
      prefill_computed_(prompt_tokens_),
      n_(kAnswersBounds),
      preemptions_(kPreemptionBounds),
      ttft_(kFirstTokenBounds),
      itl_(kTokenBounds),
      tpot_(kTokenBounds),
      e2e_(kRequestBounds),
      queue_(kRequestBounds),
      inference_(kRequestBounds),
      prefill_(kRequestBounds),
      decode_(kRequestBounds) {
  for (const char* reason : kFinishedReasons) finished_[reason] = 0;
  const double now = now_seconds();
  for (size_t i = 0; i < groups.size(); ++i) {
    group_metrics_.emplace_back(groups.window_s(), now);
    group_labels_.push_back(
        metric_labels(std::array<std::pair<std::string_view, std::string_view>, 2>{
            {{"group", groups.name(i)}, {"model_name", model_name}}}));
  }
}

void ServingMetrics::observe_inter_token_latency(size_t group, double seconds, int64_t times) {
  const std::lock_guard lock(mutex_);
  itl_.observe(seconds, times);
  group_metrics_.at(group).observe_inter_token_latency(now_seconds(), seconds, times);
}

void ServingMetrics::observe_finished(size_t group, const FinishedRequest& request) {
  const std::lock_guard lock(mutex_);
  group_metrics_.at(group).observe_finished(now_seconds(), request);
  const RequestMetrics& metrics = request.metrics;
  ++finished_[request.finished_reason];
  prompt_tokens_.observe(static_cast<double>(request.usage.prompt_tokens));
  generation_tokens_.observe(static_cast<double>(request.usage.completion_tokens));
  max_generation_tokens_.observe(static_cast<double>(request.max_num_generation_tokens));
  if (request.max_tokens) max_tokens_.observe(static_cast<double>(*request.max_tokens));
  prefill_computed_.observe(
      static_cast<double>(request.usage.prompt_tokens - request.usage.cached_tokens));
  n_.observe(request.n);
  preemptions_.observe(static_cast<double>(metrics.num_preemptions));
  e2e_.observe(request.e2e_s);
  queue_.observe(metrics.queued_s);
  inference_.observe(metrics.prefill_s + metrics.decode_s);
  prefill_.observe(metrics.prefill_s);
  decode_.observe(metrics.decode_s);
  if (const auto ttft_s = request.ttft_s()) ttft_.observe(*ttft_s);
  if (const auto tpot_s = request.tpot_s()) tpot_.observe(*tpot_s);
}

void ServingMetrics::observe_http(const std::string& handler, const std::string& method,
                                  int status) {
  const std::lock_guard lock(mutex_);
  ++http_[{handler, method, status / 100}];
}

void ServingMetrics::write_gauges(std::string& out, const EngineStats& stats,
                                  const EngineConfig& config) const {
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    write_value(out, name, "gauge", help, labels_, value);
  };
  const double usage = stats.num_blocks > 0 ? static_cast<double>(stats.num_used_blocks) /
                                                  static_cast<double>(stats.num_blocks)
                                            : 0;
  gauge("vllm:num_requests_running", "Requests in the batch.",
        static_cast<double>(stats.num_requests_running));
  gauge("vllm:num_requests_waiting", "Requests that wait for blocks or a place in the batch.",
        static_cast<double>(stats.num_requests_waiting));
  gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use; 1 is all of them.", usage);
  if (show_hidden_) {
    gauge("vllm:gpu_cache_usage_perc", "Deprecated: vllm:kv_cache_usage_perc.", usage);
  }
  const std::string block_size = format("{}", config.block_size);
  const std::string num_blocks = format("{}", stats.num_blocks);
  const std::pair<std::string_view, std::string_view> cache_labels[] = {
      {"engine", "0"},
      {"block_size", block_size},
      {"cache_dtype", config.kv_cache_dtype},
      {"enable_prefix_caching", config.enable_prefix_caching ? "True" : "False"},
      {"num_gpu_blocks", num_blocks},
  };
  write_value(out, "vllm:cache_config_info", "gauge", "How the KV cache is set up.",
              metric_labels(cache_labels), 1);
}

void ServingMetrics::write_counters(std::string& out, const EngineStats& stats) const {
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    write_value(out, name, "counter", help, labels_, static_cast<double>(value));
  };
  counter("vllm:prompt_tokens_total", "Prompt tokens, computed or cached.", stats.prompt_tokens);
  counter("vllm:generation_tokens_total", "Generated tokens.", stats.generation_tokens);
  counter("vllm:num_preemptions_total", "Sequences whose blocks were taken away.",
          stats.num_preemptions);
  counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
          stats.prefix_cache_queries);
  counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
          stats.prefix_cache_hits);
  counter("vllm:prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.",
          stats.prefix_cache_hits);
  write_metric_head(out, "vllm:prompt_tokens_by_source_total", "counter",
                    "Prompt tokens by where their keys and values come from.");
  const std::pair<const char*, int64_t> sources[] = {
      {"local_compute", stats.prompt_tokens - stats.prefix_cache_hits},
      {"local_cache_hit", stats.prefix_cache_hits}};
  for (const auto& [source, count] : sources) {
    write_sample(out, "vllm:prompt_tokens_by_source_total",
                 format("{},source=\"{}\"", labels_, source), static_cast<double>(count));
  }
  if (!stats.spec_decode_num_accepted_tokens_per_pos.empty()) write_spec_decode(out, stats);
  counter("vllm:admission_rejections_total", "Requests that were refused.", stats.num_refused);
  write_metric_head(out, "vllm:request_success_total", "counter", "Requests that have ended.");
  for (const auto& [reason, count] : finished_) {
    write_sample(out, "vllm:request_success_total",
                 format("{},finished_reason=\"{}\"", labels_, reason), static_cast<double>(count));
  }
}

void ServingMetrics::write_spec_decode(std::string& out, const EngineStats& stats) const {
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    write_value(out, name, "counter", help, labels_, static_cast<double>(value));
  };
  counter("vllm:spec_decode_num_drafts_total", "Steps of a sequence that checked drafts.",
          stats.spec_decode_num_drafts);
  counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens that were checked.",
          stats.spec_decode_num_draft_tokens);
  counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were right.",
          stats.spec_decode_num_accepted_tokens);
  const char* const by_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
  write_metric_head(out, by_position, "counter", "Draft tokens that were right, by their place.");
  for (size_t i = 0; i < stats.spec_decode_num_accepted_tokens_per_pos.size(); ++i) {
    write_sample(out, by_position, format("{},position=\"{}\"", labels_, i),
                 static_cast<double>(stats.spec_decode_num_accepted_tokens_per_pos[i]));
  }
}

void ServingMetrics::write_histograms(std::string& out) const {
  const auto histogram = [&](std::string_view name, std::string_view help, const Histogram& h) {
    write_metric_head(out, name, "histogram", help);
    h.write(out, name, labels_);
  };
  histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", prompt_tokens_);
  histogram("vllm:request_generation_tokens", "Generated tokens of a request.", generation_tokens_);
  histogram("vllm:request_max_num_generation_tokens", "Tokens of the longest answer.",
            max_generation_tokens_);
  histogram("vllm:request_params_max_tokens", "max_tokens of a request.", max_tokens_);
  histogram("vllm:request_params_n", "n of a request.", n_);
  histogram("vllm:request_prefill_kv_computed_tokens", "Prompt tokens that were not cached.",
            prefill_computed_);
  histogram("vllm:request_num_preemptions", "Preemptions of a request.", preemptions_);
  histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", ttft_);
  histogram("vllm:inter_token_latency_seconds", "Between two tokens of an answer.", itl_);
  if (show_hidden_) {
    histogram("vllm:time_per_output_token_seconds", "Deprecated: inter_token_latency_seconds.",
              itl_);
  }
  histogram("vllm:request_time_per_output_token_seconds", "Mean of a request's tokens but one.",
            tpot_);
  histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", e2e_);
  histogram("vllm:request_queue_time_seconds", "Waiting for the first step.", queue_);
  histogram("vllm:request_inference_time_seconds", "Prefill and decode.", inference_);
  histogram("vllm:request_prefill_time_seconds", "From the first step to the first token.",
            prefill_);
  histogram("vllm:request_decode_time_seconds", "From the first token to the last.", decode_);
}

void ServingMetrics::write_http(std::string& out) const {
  write_metric_head(out, "http_requests_total", "counter", "HTTP requests by route and status.");
  for (const auto& [key, count] : http_) {
    const auto& [handler, method, status] = key;
    const std::string status_class = format("{}xx", status);
    const std::pair<std::string_view, std::string_view> labels[] = {
        {"handler", handler}, {"method", method}, {"status", status_class}};
    write_sample(out, "http_requests_total", metric_labels(labels), static_cast<double>(count));
  }
}

void ServingMetrics::write_groups(std::string& out) const {
  if (!groups_.any()) return;
  write_metric_head(out, "octavo:group_weight", "gauge", "The weight of a group.");
  const std::vector<double> weights = groups_.weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    write_sample(out, "octavo:group_weight", group_labels_[i], weights[i]);
  }
  write_group_metrics(out, group_metrics_, group_labels_);
}

std::vector<GroupWindow> ServingMetrics::windows() const {
  const std::lock_guard lock(mutex_);
  const double now = now_seconds();
  std::vector<GroupWindow> windows;
  for (const GroupMetrics& metrics : group_metrics_) windows.push_back(metrics.window(now));
  return windows;
}

std::string ServingMetrics::text(const EngineStats& stats, const EngineConfig& config) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  write_gauges(out, stats, config);
  write_counters(out, stats);
  write_histograms(out);
  write_groups(out);
  write_http(out);
  return out;
}

}  // namespace octavo::server
