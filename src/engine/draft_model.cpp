#include "engine/draft_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "engine/model_drafter.h"

namespace octavo::engine {
namespace {

// Embeddings are padded differently, so that only the tokens that both have are compared.
Status check_same_vocabulary(const LoadedModel& draft, const LoadedModel& target) {
  const std::string& path = draft.info.path;
  if (draft.tokenizer == nullptr || target.tokenizer == nullptr) {
    if (draft.info.vocab_size == target.info.vocab_size) return {};
    return invalid_argument(format("speculative_config: {} has {} tokens, but the model {}", path,
                                   draft.info.vocab_size, target.info.vocab_size));
  }
  const auto count =
      static_cast<TokenId>(std::min(draft.tokenizer->vocab_size(), target.tokenizer->vocab_size()));
  for (TokenId id = 0; id < count; ++id) {
    const std::string own = draft.tokenizer->token_piece(id);
    const std::string other = target.tokenizer->token_piece(id);
    if (own == other) continue;
    return invalid_argument(
        format("speculative_config: {} has another vocabulary than the model: its token {} is "
               "'{}', not '{}'",
               path, id, own, other));
  }
  return {};
}

// What all groups of layers need for a page of tokens.
int64_t page_bytes(const ModelRunner& runner) {
  return runner.kv_block_bytes() * runner.kv_groups().num_groups();
}

}  // namespace

Result<LoadedModel> load_draft_model(const EngineConfig& config, const LoadedModel& target,
                                     const RunnerLimits& limits) {
  LoadOptions options = config;
  options.max_model_len = 0;
  options.progress = nullptr;
  LoadedModel draft = OCTAVO_TRY(load_model(config.speculative_config->model, options, limits));
  OCTAVO_TRY(check_same_vocabulary(draft, target));
  return draft;
}

void add_draft_model(const LoadedModel& draft, MemoryFacts& facts) {
  facts.weight_bytes += draft.info.weight_bytes;
  facts.workspace_bytes += draft.runner->workspace_bytes();
  const auto blocks_per_page = static_cast<int64_t>(facts.spans.size());
  facts.kv_block_bytes += (page_bytes(*draft.runner) + blocks_per_page - 1) / blocks_per_page;
}

Result<std::unique_ptr<Drafter>> make_model_drafter(LoadedModel draft, const ModelInfo& target,
                                                    const EngineConfig& config,
                                                    const MemoryPlan& plan) {
  ModelRunner& runner = *draft.runner;
  ModelDrafterConfig result;
  result.num_blocks = plan.num_tokens / config.block_size * runner.kv_groups().num_groups();
  result.block_size = config.block_size;
  result.enable_prefix_caching = config.enable_prefix_caching;
  result.groups = runner.kv_groups().spans;
  result.max_num_batched_tokens = runner.limits().max_num_batched_tokens;
  result.max_logit_rows = runner.limits().max_logit_rows;
  result.max_model_len = runner.max_model_len();
  result.vocab_size = draft.info.vocab_size;
  result.target_vocab_size = target.vocab_size;
  result.rope = runner.model().config().rope;
  result.relative_cost = static_cast<double>(draft.info.decode_bytes) /
                         static_cast<double>(std::max<int64_t>(1, target.decode_bytes));
  OCTAVO_TRY(runner.resize_kv_cache(result.num_blocks));
  return std::unique_ptr<Drafter>(
      std::make_unique<ModelDrafter>(std::move(result), std::move(draft.runner)));
}

}  // namespace octavo::engine
