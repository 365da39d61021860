// What /metrics shows, under the names, labels and buckets that vLLM made common. Gauges and most
// counters are the engine's own; latencies are gathered here from the events of requests. Where
// there are groups, octavo:* shows the same of each.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "octavo/engine.h"
#include "server/finished_request.h"
#include "server/group_metrics.h"
#include "server/groups.h"
#include "server/metrics.h"

namespace octavo::server {

class ServingMetrics {
 public:
  // `show_hidden`: also the names that vLLM has deprecated. `groups` must outlive it.
  ServingMetrics(const std::string& model_name, int64_t max_model_len, bool show_hidden,
                 const Groups& groups);

  void observe_inter_token_latency(size_t group, double seconds, int64_t times = 1);
  void observe_finished(size_t group, const FinishedRequest& request);
  void observe_http(const std::string& handler, const std::string& method, int status);

  std::string text(const EngineStats& stats, const EngineConfig& config) const;

  // By group.
  std::vector<GroupWindow> windows() const;

 private:
  void write_gauges(std::string& out, const EngineStats& stats, const EngineConfig& config) const;
  void write_counters(std::string& out, const EngineStats& stats) const;
  void write_spec_decode(std::string& out, const EngineStats& stats) const;
  void write_histograms(std::string& out) const;
  void write_http(std::string& out) const;
  void write_groups(std::string& out) const;

  const std::string labels_;
  const bool show_hidden_;
  const Groups& groups_;
  std::vector<std::string> group_labels_;
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> finished_;
  std::map<std::tuple<std::string, std::string, int>, int64_t>
      http_;  // handler, method, status / 100
  Histogram prompt_tokens_, generation_tokens_, max_generation_tokens_, max_tokens_;
  Histogram prefill_computed_, n_, preemptions_;
  Histogram ttft_, itl_, tpot_;
  Histogram e2e_, queue_, inference_, prefill_, decode_;
  std::vector<GroupMetrics> group_metrics_;
};

}  // namespace octavo::server
