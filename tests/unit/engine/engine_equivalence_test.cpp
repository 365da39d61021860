// batched = alone, cached = uncached, chunked = whole, preempted = not, streamed = whole, n forked
// = n separate: bit for bit, over random schedules. OCTAVO_TEST_SCHEDULES sets their number and
// OCTAVO_TEST_SEED the first one's seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "formats/hf_checkpoint.h"
#include "support/engine_schedules.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

int64_t number_of(const char* variable, int64_t otherwise) {
  const std::string text = env_string(variable);
  return text.empty() ? otherwise : std::strtoll(text.c_str(), nullptr, 10);
}

// Sanitizers make a schedule many times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSchedules = 200;
#else
constexpr int64_t kSchedules = 2000;
#endif

void run_schedules(const char* kv_cache_dtype, int64_t num_schedules, const char* backend = "cpu") {
  testing::TinyLlama spec;
  spec.hidden_size = 32;
  spec.intermediate_size = 32;
  spec.num_attention_heads = 2;
  spec.num_key_value_heads = 1;
  testing::ScheduleOptions options;
  options.model_path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(options.model_path, spec);
  options.kv_cache_dtype = kv_cache_dtype;
  options.backend = backend;
  options.num_schedules = number_of("OCTAVO_TEST_SCHEDULES", num_schedules);
  options.first_seed = static_cast<uint64_t>(number_of("OCTAVO_TEST_SEED", 1));
  testing::run_random_schedules(options);
}

// Of models with layers that look back only so far.
testing::ScheduleOptions bounded(const std::string& path) {
  testing::ScheduleOptions options;
  options.model_path = path;
  options.num_schedules = number_of("OCTAVO_TEST_SCHEDULES", kSchedules) / 4;
  options.first_seed = static_cast<uint64_t>(number_of("OCTAVO_TEST_SEED", 1));
  options.long_prompt_tokens = 200;
  options.max_spare_tokens = 60;
  options.gives_back = true;
  return options;
}

TEST(EngineEquivalence, RandomSchedulesOfWindowsChangeNoBit) {
  testing::run_random_schedules(bounded(OCTAVO_TEST_DATA "/goldens/mistral_window"));
}

TEST(EngineEquivalence, RandomSchedulesOfChunksChangeNoBit) {
  const std::string source = OCTAVO_TEST_DATA "/goldens/llama4_scout";
  const std::string folder = testing::temp_path("chunks");
  std::filesystem::copy(source, folder);
  std::string config = formats::read_text_file(source + "/config.json").value();
  const std::string pattern = "[1, 1, 1, 0, 1]";  // which layers have chunks
  const size_t found = config.find(pattern);
  ASSERT_NE(found, std::string::npos);
  config.replace(found, pattern.size(), "[1, 1, 1, 1, 1]");
  std::ofstream(folder + "/config.json") << config;
  testing::run_random_schedules(bounded(folder));
}

// Layers with windows, or chunks, and others that see everything.
TEST(EngineEquivalence, RandomSchedulesOfMixedLayersChangeNoBit) {
  for (const char* model : {"gemma2", "gemma3", "llama4_scout"}) {
    testing::run_random_schedules(bounded(std::string(OCTAVO_TEST_DATA "/goldens/") + model));
    ASSERT_FALSE(HasFailure()) << model;
  }
}

TEST(EngineEquivalence, RandomSchedulesChangeNoBit) {
  run_schedules("auto", kSchedules);
}

// Half of the steps draw tokens by the op that GPUs have.
TEST(EngineEquivalence, RandomSchedulesChangeNoBitOfRef) {
  run_schedules("auto", kSchedules / 10, "ref");
}

TEST(EngineEquivalence, RandomSchedulesChangeNoBitOfAnInt8Cache) {
  run_schedules("int8", kSchedules / 4);
}

}  // namespace
}  // namespace octavo
