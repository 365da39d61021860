// Random schedules on a real model, and what must hold for each: an answer, and every logit that
// led to it, is bit for bit what the request gives alone, computed whole, with nothing cached
// and nothing guessed ahead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::testing {

struct ScheduleOptions {
  std::string model_path;
  std::string backend = "cpu";
  std::string attn_implementation = "auto";
  std::vector<int64_t> block_sizes = {1, 3, 8, 16, 17};
  std::string kv_cache_dtype = "auto";
  uint64_t first_seed = 1;
  int64_t num_schedules = 100;
  int64_t schedules_per_pool = 100;  // that draw from the same requests
  int64_t requests_per_pool = 24;
  int64_t max_prompt_tokens = 60;
  int64_t long_prompt_tokens = 300;  // of one request in each pool: more than an attention tile
  int64_t max_answer_tokens = 12;
  int64_t max_spare_tokens = 150;  // of the KV cache beyond what the largest request needs
  bool gives_back = false;         // blocks that its layers no longer see
};

// Fails the running test at the first schedule that differs; the message has its seed.
void run_random_schedules(const ScheduleOptions& options);

}  // namespace octavo::testing
