// Sends the requests of `octavo bench serve`, each at its time and at most so many at once, and
// records when each piece of an answer comes. One thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/load_samples.h"
#include "octavo/status.h"

namespace octavo::cli {

struct LoadTarget {
  std::string url;  // of the endpoint
  std::string model;
  bool is_chat = false;
  std::vector<std::string> headers;
  bool ignore_eos = false;
  std::optional<int64_t> logprobs;
  JsonObject extra_body;  // sampling parameters and what else each request carries
};

struct LoadTraffic {
  double request_rate = std::numeric_limits<double>::infinity();  // per second
  double burstiness = 1;  // 1: Poisson arrivals; the gaps follow a gamma distribution of this shape
  bool self_timed = false;      // at the times that samples carry
  int64_t max_concurrency = 0;  // 0: no limit
  int64_t seed = 0;
  bool show_progress = false;
};

// What became of one request. Times are seconds.
struct LoadRecord {
  bool success = false;
  std::string error;
  std::string text;
  std::string group;  // that the answer names, of an A/B test
  int64_t prompt_len = 0;
  int64_t output_len = 0;  // as the server counts, else pieces
  double start_time = 0;   // of the clock of base/clock.h
  double queue_time = 0;   // waited in the client for others to end
  double ttft = 0;
  double latency = 0;
  std::vector<double> itl;
};

struct LoadRun {
  double duration_s = 0;
  std::vector<LoadRecord> records;  // in the order of the samples
};

Result<LoadRun> run_load(const LoadTarget& target, const LoadTraffic& traffic,
                         const std::vector<LoadSample>& samples);

// When each of `count` requests is sent. They end at count / rate, whatever the draw.
std::vector<double> arrival_times(const LoadTraffic& traffic, size_t count);

// The answer to a GET as JSON.
Result<Json> get_json(const std::string& url, const std::vector<std::string>& headers);

}  // namespace octavo::cli
