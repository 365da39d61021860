// What metrics learn of a request that has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "octavo/engine.h"

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

  // Whether a rule or a limit ended it, and not a client or an error.
  bool is_complete() const { return finished_reason == "stop" || finished_reason == "length"; }

  // As the engine counts them: of a request that never left the queue, none.
  int64_t num_prompt_tokens() const {
    const bool has_run = has_first_token || metrics.queued_s > 0;
    return has_run ? usage.prompt_tokens : 0;
  }

  // From arrival to the first token.
  std::optional<double> ttft_s() const {
    if (!has_first_token) return std::nullopt;
    return before_submit_s + metrics.queued_s + metrics.prefill_s;
  }

  // The mean time of the tokens after the first.
  std::optional<double> tpot_s() const {
    if (!has_first_token || max_num_generation_tokens < 2) return std::nullopt;
    return metrics.decode_s / static_cast<double>(max_num_generation_tokens - 1);
  }
};

}  // namespace octavo::server
