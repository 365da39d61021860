// What `octavo bench serve` says of a run: the block of text and the JSON of `vllm bench serve`,
// with its labels, keys and definitions, so that scripts read both alike.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/load_client.h"
#include "octavo/status.h"

namespace octavo::cli {

struct ReportOptions {
  std::vector<std::string> metrics{"ttft", "tpot", "itl"};  // that are reported
  std::vector<double> percentiles{99};
  std::map<std::string, double> goodput;  // ttft, tpot, e2el: at most so many milliseconds
  double request_rate = 0;                // infinity: not printed
  int64_t max_concurrency = 0;            // 0: not printed
};

struct LoadReport {
  std::string text;
  JsonObject json;
};

LoadReport make_report(const LoadRun& run, const ReportOptions& options);

// The keys that hold something for each request: only --save-detailed keeps them.
void remove_details(JsonObject& json);

// "ttft:500" to its parts; the error names --goodput.
Result<std::map<std::string, double>> parse_goodput(const std::vector<std::string>& pairs);

}  // namespace octavo::cli
