// What /metrics shows, under the names, labels and buckets that vLLM made common. Gauges and most
// counters are the engine's own; latencies are gathered here from the events of requests.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "octavo/engine.h"
#include "server/metrics.h"

namespace octavo::server {

struct FinishedRequest {
  double e2e_s = 0;  // from the arrival of the HTTP request
  double before_submit_s = 0;
  RequestMetrics metrics;
  Usage usage;
  int64_t max_num_generation_tokens = 0;  // of the longest answer
  int32_t n = 1;
  std::optional<int64_t> max_tokens;
  bool has_first_token = false;
  std::string finished_reason;  // stop, length, abort, error
};

class ServingMetrics {
 public:
  // `show_hidden`: also the names that vLLM has deprecated.
  ServingMetrics(std::string model_name, int64_t max_model_len, bool show_hidden);

  void observe_inter_token_latency(double seconds, int64_t times = 1);
  void observe_finished(const FinishedRequest& request);
  void observe_http(const std::string& handler, const std::string& method, int status);

  std::string text(const EngineStats& stats, const EngineConfig& config) const;

 private:
  void write_gauges(std::string& out, const EngineStats& stats, const EngineConfig& config) const;
  void write_counters(std::string& out, const EngineStats& stats) const;
  void write_spec_decode(std::string& out, const EngineStats& stats) const;
  void write_histograms(std::string& out) const;
  void write_http(std::string& out) const;

  const std::string labels_;
  const bool show_hidden_;
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> finished_;
  std::map<std::tuple<std::string, std::string, int>, int64_t>
      http_;  // handler, method, status / 100
  Histogram prompt_tokens_, generation_tokens_, max_generation_tokens_, max_tokens_;
  Histogram prefill_computed_, n_, preemptions_;
  Histogram ttft_, itl_, tpot_;
  Histogram e2e_, queue_, inference_, prefill_, decode_;
};

}  // namespace octavo::server
