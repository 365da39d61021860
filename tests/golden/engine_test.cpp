// The engine's equivalences on the default model (scripts/fetch_model.sh).
#include <gtest/gtest.h>

#include "base/env.h"
#include "support/engine_schedules.h"

namespace octavo {
namespace {

void run_schedules(const char* kv_cache_dtype, int64_t num_schedules) {
  testing::ScheduleOptions options;
  options.kv_cache_dtype = kv_cache_dtype;
  options.model_path = octavo_home() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  options.num_schedules = num_schedules;
  options.requests_per_pool = 8;
  options.max_prompt_tokens = 40;
  options.long_prompt_tokens = 60;
  options.max_answer_tokens = 6;
  options.max_spare_tokens = 20;
  testing::run_random_schedules(options);
}

TEST(Engine, RandomSchedulesChangeNoBitOfTheDefaultModel) {
  run_schedules("auto", 20);
}

TEST(Engine, RandomSchedulesChangeNoBitOfTheDefaultModelWithAnInt8Cache) {
  run_schedules("int8", 5);
}

}  // namespace
}  // namespace octavo
