// AsyncEngine::create: from a model file and a configuration to a running engine.
#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory_limits.h"
#include "engine/draft_model.h"
#include "engine/loaded_model.h"
#include "engine/local_engine.h"
#include "engine/memory_plan.h"
#include "engine/speculative_config.h"
#include "octavo/engine.h"

namespace octavo {
namespace engine {
namespace {

// Rows of logits beyond one for each sequence, so that prompt logprobs get on while all decode.
constexpr int64_t kPromptLogitRows = 64;

SchedulerConfig scheduler_config(const EngineConfig& config) {
  SchedulerConfig result;
  result.max_num_seqs = config.max_num_seqs;
  result.max_logit_rows = config.max_num_seqs + kPromptLogitRows;
  result.long_prefill_token_threshold = config.long_prefill_token_threshold;
  result.scheduling_policy = config.scheduling_policy;
  result.watermark = config.watermark;
  result.admission_factor = config.admission_factor;
  return result;
}

Result<std::unique_ptr<AsyncEngine>> create(const std::string& path, const EngineConfig& config) {
  OCTAVO_TRY(check_engine_config(config));
  EngineConfig chosen = config;
  if (config.speculative_config) {
    chosen.speculative_config = OCTAVO_TRY(resolve_speculative_config(*config.speculative_config));
  }
  LocalEngine::Parts parts;
  parts.core.scheduler = scheduler_config(config);
  const RunnerLimits limits{config.block_size, config.max_num_batched_tokens,
                            parts.core.scheduler.max_logit_rows};
  const int64_t host_available = available_memory_bytes();
  LoadedModel loaded = OCTAVO_TRY(load_model(path, config, limits));
  ModelRunner& runner = *loaded.runner;
  chosen.max_num_batched_tokens = runner.limits().max_num_batched_tokens;
  parts.core.scheduler.max_num_batched_tokens = chosen.max_num_batched_tokens;
  MemoryFacts facts{host_available,          loaded.info.weight_bytes, runner.workspace_bytes(),
                    runner.kv_block_bytes(), runner.max_model_len(),   runner.kv_groups().spans};
  std::optional<LoadedModel> draft;
  if (chosen.speculative_config && !chosen.speculative_config->model.empty()) {
    draft = OCTAVO_TRY(load_draft_model(chosen, loaded, runner.limits()));
    add_draft_model(*draft, facts);
  }
  if (const Device& device = *runner.backend().device; !device.host_accessible()) {
    facts.available_bytes = device.available_bytes() + facts.weight_bytes + facts.workspace_bytes;
    facts.gpu = true;
  }
  const MemoryPlan plan = OCTAVO_TRY(plan_memory(chosen, facts));
  OCTAVO_TRY(runner.resize_kv_cache(plan.num_blocks));
  if (chosen.speculative_config) {
    std::unique_ptr<Drafter> drafter;
    if (draft) {
      drafter = OCTAVO_TRY(make_model_drafter(std::move(*draft), loaded.info, chosen, plan));
    }
    parts.speculator = make_speculator(*chosen.speculative_config, runner, std::move(drafter));
  }
  log_info("{}", describe(plan));
  if (plan.max_model_len < runner.max_model_len()) {
    log_warning("max_model_len is {} instead of {}: the KV cache holds no more", plan.max_model_len,
                runner.max_model_len());
  }
  loaded.info.max_model_len = plan.max_model_len;

  parts.core.num_blocks = plan.num_blocks;
  parts.core.block_size = config.block_size;
  parts.core.enable_prefix_caching = config.enable_prefix_caching;
  parts.core.groups = plan.facts.spans;
  parts.core.max_model_len = plan.max_model_len;
  parts.core.vocab_size = loaded.info.vocab_size;
  parts.core.rope = runner.model().config().rope;
  parts.core.stop_ids = std::move(loaded.stop_ids);
  parts.config = chosen;
  parts.config.max_model_len = plan.max_model_len;
  parts.config.kv_cache_dtype = loaded.info.kv_cache_dtype;
  parts.config.num_gpu_blocks_override = plan.num_blocks;
  parts.config.kv_cache_memory_bytes = 0;
  parts.info = std::move(loaded.info);
  parts.executor = std::move(loaded.runner);
  parts.tokenizer = std::move(loaded.tokenizer);
  parts.clock = now_seconds;
  return LocalEngine::start(std::move(parts));
}

}  // namespace
}  // namespace engine

Result<std::unique_ptr<AsyncEngine>> AsyncEngine::create(const std::string& path,
                                                         const EngineConfig& config) {
  return engine::create(path, config);
}

}  // namespace octavo
