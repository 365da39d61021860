// The engine's equivalences on the default model (scripts/fetch_model.sh).
#include <gtest/gtest.h>

#include "base/env.h"
#include "support/engine_schedules.h"

namespace octavo {
namespace {

TEST(Engine, RandomSchedulesChangeNoBitOfTheDefaultModel) {
  testing::ScheduleOptions options;
  options.model_path = octavo_home() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  options.num_schedules = 20;
  options.requests_per_pool = 8;
  options.max_prompt_tokens = 40;
  options.long_prompt_tokens = 60;
  options.max_answer_tokens = 6;
  options.max_spare_tokens = 20;
  testing::run_random_schedules(options);
}

}  // namespace
}  // namespace octavo
