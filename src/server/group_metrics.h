// What is measured of each group: counters and histograms since the start, for Prometheus, and the
// last minutes, for GET /ab. Not for several threads at once: ServingMetrics has the lock.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/distribution.h"
#include "server/finished_request.h"
#include "server/metrics.h"

namespace octavo::server {

// Of one group, in one stretch of time.
struct GroupWindow {
  double seconds = 0;
  int64_t num_requests = 0;  // that have ended
  int64_t num_errors = 0;
  int64_t num_aborted = 0;
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;
  // itl: every token after the first; tpot: a request's mean of them. All but itl are of requests
  // that were neither aborted nor failed.
  Distribution ttft, itl, tpot, e2e;

  void add(const GroupWindow& other);
};

class GroupMetrics {
 public:
  GroupMetrics(double window_s, double start);

  void observe_inter_token_latency(double now, double seconds, int64_t times);
  void observe_finished(double now, const FinishedRequest& request);

  // The last `window_s` seconds, or since the start.
  GroupWindow window(double now) const;

 private:
  // The window is made of slots; the oldest is dropped whole.
  static constexpr size_t kNumSlots = 30;
  struct Slot {
    int64_t number = -1;
    GroupWindow window;
  };
  GroupWindow& slot_at(double now);
  int64_t slot_number(double now) const;

  friend void write_group_metrics(std::string& out, std::span<const GroupMetrics> groups,
                                  std::span<const std::string> labels);

  const double slot_s_;
  const double start_;
  std::vector<Slot> slots_;
  std::map<std::string, int64_t> finished_;  // by reason
  int64_t prompt_tokens_ = 0;
  int64_t generation_tokens_ = 0;
  Histogram ttft_, itl_, e2e_;
};

// octavo:*, with the labels of each group.
void write_group_metrics(std::string& out, std::span<const GroupMetrics> groups,
                         std::span<const std::string> labels);

}  // namespace octavo::server
