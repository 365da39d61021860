#include "engine/memory_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::engine {
namespace {

// Of the available memory, for a KV cache whose size nobody has set: other programs, the page cache
// of the weights and the workspace need the rest.
constexpr double kDefaultKvShare = 0.4;

std::string mebibytes(int64_t bytes) {
  return format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

Status check_range(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument(format("{} is {}, which must lie in {}..{}", field, value, least, most));
}

// What a KV cache may take whose size nobody has set.
int64_t kv_share_bytes(const EngineConfig& config, const MemoryFacts& facts) {
  const double share = facts.gpu ? config.gpu_memory_utilization : kDefaultKvShare;
  const auto bytes = static_cast<int64_t>(share * static_cast<double>(facts.available_bytes));
  if (!facts.gpu) return bytes;
  return std::max<int64_t>(0, bytes - facts.weight_bytes - facts.workspace_bytes);
}

int64_t blocks_of(int64_t num_tokens, const EngineConfig& config, const MemoryFacts& facts) {
  return model::peak_blocks(facts.spans, num_tokens, config.max_num_batched_tokens,
                            config.block_size);
}

// The longest sequence that so many blocks hold, in whole pages, if `num_blocks` are too few for
// one of facts.max_model_len.
int64_t longest_of(int64_t num_blocks, const EngineConfig& config, const MemoryFacts& facts) {
  int64_t fits = 0;
  int64_t too_many = facts.max_model_len / config.block_size + 1;
  while (too_many - fits > 1) {
    const int64_t pages = (fits + too_many) / 2;
    (blocks_of(pages * config.block_size, config, facts) <= num_blocks ? fits : too_many) = pages;
  }
  return fits * config.block_size;
}

int64_t choose_num_blocks(const EngineConfig& config, const MemoryFacts& facts) {
  int64_t blocks = 0;
  if (config.num_gpu_blocks_override > 0) {
    blocks = config.num_gpu_blocks_override;
  } else if (config.kv_cache_memory_bytes > 0) {
    blocks = config.kv_cache_memory_bytes / facts.kv_block_bytes;
  } else {
    const int64_t each = blocks_of(facts.max_model_len, config, facts);
    const auto share = kv_share_bytes(config, facts);
    blocks = std::min(config.max_num_seqs * each, share / facts.kv_block_bytes);
  }
  if (config.max_paged_cache_size > 0) blocks = std::min(blocks, config.max_paged_cache_size);
  return blocks;
}

}  // namespace

Status check_engine_config(const EngineConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 40;
  OCTAVO_TRY(check_range("block_size", config.block_size, 1, 4096));
  OCTAVO_TRY(check_range("max_num_seqs", config.max_num_seqs, 1, 65536));
  if (config.max_num_batched_tokens != 0) {
    OCTAVO_TRY(check_range("max_num_batched_tokens", config.max_num_batched_tokens,
                           config.max_num_seqs, 1 << 20));
  }
  OCTAVO_TRY(
      check_range("long_prefill_token_threshold", config.long_prefill_token_threshold, 0, kMost));
  OCTAVO_TRY(check_range("max_paged_cache_size", config.max_paged_cache_size, 0, 1 << 30));
  OCTAVO_TRY(check_range("num_gpu_blocks_override", config.num_gpu_blocks_override, 0, 1 << 30));
  OCTAVO_TRY(check_range("kv_cache_memory_bytes", config.kv_cache_memory_bytes, 0, kMost << 10));
  OCTAVO_TRY(check_range("max_num_queued_reqs", config.max_num_queued_reqs, 1, kMost));
  OCTAVO_TRY(check_range("max_num_queued_tokens", config.max_num_queued_tokens, 1, kMost));
  if (!(config.watermark >= 0 && config.watermark < 1)) {
    return invalid_argument(format("watermark is {}, which must lie in [0, 1)", config.watermark));
  }
  if (!(config.gpu_memory_utilization > 0 && config.gpu_memory_utilization <= 1)) {
    return invalid_argument(format("gpu_memory_utilization is {}, which must lie in (0, 1]",
                                   config.gpu_memory_utilization));
  }
  if (!(config.admission_factor >= 1 && config.admission_factor <= 100)) {
    return invalid_argument(
        format("admission_factor is {}, which must lie in [1, 100]", config.admission_factor));
  }
  if (config.num_gpu_blocks_override > 0 && config.kv_cache_memory_bytes > 0) {
    return invalid_argument(
        "num_gpu_blocks_override and kv_cache_memory_bytes both set the size of the KV cache");
  }
  return {};
}

Result<MemoryPlan> plan_memory(const EngineConfig& config, const MemoryFacts& facts) {
  const bool sized = config.num_gpu_blocks_override > 0 || config.kv_cache_memory_bytes > 0;
  if (facts.available_bytes == 0 && !sized) {
    return resource_exhausted(
        "the system does not say how much memory is available: set kv_cache_memory_bytes");
  }
  MemoryPlan plan;
  plan.facts = facts;
  plan.block_size = config.block_size;
  plan.num_blocks = choose_num_blocks(config, facts);
  const auto num_groups = static_cast<int64_t>(facts.spans.size());
  plan.num_tokens = plan.num_blocks / num_groups * config.block_size;
  if (plan.num_tokens < 1) {
    return resource_exhausted(
        format("no KV cache of {} blocks of {} fits, as a token needs: {} of memory are available, "
               "kv_cache_memory_bytes is {}",
               num_groups, mebibytes(facts.kv_block_bytes), mebibytes(facts.available_bytes),
               config.kv_cache_memory_bytes));
  }
  if (facts.available_bytes > 0 && plan.kv_bytes() > facts.available_bytes) {
    return resource_exhausted(format("a KV cache of {} blocks needs {}, but {} are available",
                                     plan.num_blocks, mebibytes(plan.kv_bytes()),
                                     mebibytes(facts.available_bytes)));
  }
  const int64_t longest = blocks_of(facts.max_model_len, config, facts);
  plan.max_model_len =
      longest <= plan.num_blocks ? facts.max_model_len : longest_of(plan.num_blocks, config, facts);
  if (plan.max_model_len < facts.max_model_len && config.max_model_len > 0) {
    return resource_exhausted(
        format("max_model_len is {}, but a KV cache of {} blocks holds {} tokens: lower "
               "max_model_len to {} or give it {}",
               facts.max_model_len, plan.num_blocks, plan.max_model_len, plan.max_model_len,
               mebibytes(longest * facts.kv_block_bytes)));
  }
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  const MemoryFacts& facts = plan.facts;
  std::string text =
      format("memory: weights {}, workspace {}, KV cache {} = {} blocks of {} = {} tokens",
             mebibytes(facts.weight_bytes), mebibytes(facts.workspace_bytes),
             mebibytes(plan.kv_bytes()), plan.num_blocks, plan.block_size, plan.num_tokens);
  if (facts.spans.size() > 1) text += format(" in each of {} groups of layers", facts.spans.size());
  if (facts.available_bytes > 0) {
    const int64_t left =
        facts.available_bytes - facts.weight_bytes - facts.workspace_bytes - plan.kv_bytes();
    text +=
        format("; of {} available {} are left", mebibytes(facts.available_bytes), mebibytes(left));
  }
  return text;
}

}  // namespace octavo::engine
