// ModelRunner: a model, its KV cache and its scratch memory on one device; runs one batch at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backends/registry.h"
#include "base/thread_pool.h"
#include "engine/batch.h"
#include "engine/block_manager.h"
#include "model/causal_lm.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "octavo/model.h"

namespace octavo::engine {

inline constexpr int64_t kBlockSize = 16;

// Rows of one forward. 512 rows keep the activations of a 135M model in a 32 MB cache, and are
// enough for matrix products to run at full speed.
inline constexpr int64_t kMaxNumBatchedTokens = 512;

// Rows of which logits are computed at once: bounds their memory (48 MB at 49,152 entries).
inline constexpr int64_t kMaxLogitRows = 256;

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> create(const formats::Checkpoint& checkpoint,
                                                     const LoadOptions& options);

  // What `create` would take; see measure_memory() in octavo/model.h.
  static Result<MemoryNeeds> measure(const formats::Checkpoint& checkpoint,
                                     const LoadOptions& options);

  const model::CausalLM& model() const { return *model_; }
  const backends::Backend& backend() const { return backend_; }
  BlockManager& blocks() { return *blocks_; }
  int num_threads() const { return pool_->num_threads(); }
  DType kv_cache_dtype() const { return kv_->dtype(); }
  int64_t max_model_len() const { return max_model_len_; }

  // Computes the slices and moves their num_computed_tokens on. At most kMaxNumBatchedTokens tokens
  // and kMaxLogitRows rows of logits, which lie in host memory until the next call: [rows,
  // vocab_size].
  Result<ops::Mat> forward(std::span<const ScheduledSlice> slices);

  // Replaces the KV cache by an empty one of at least `num_blocks` blocks. No sequence may hold
  // any.
  Status resize_kv_cache(int64_t num_blocks);

 private:
  ModelRunner() = default;
  Status load(const formats::Checkpoint& checkpoint, const LoadOptions& options,
              model::LoadMode mode);
  Status choose_kv_cache(const LoadOptions& options, const std::string& path);

  backends::Backend backend_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<model::CausalLM> model_;
  std::unique_ptr<model::KvCache> kv_;
  std::unique_ptr<BlockManager> blocks_;
  std::unique_ptr<BatchBuilder> batch_builder_;
  DType kv_dtype_ = DType::kBF16;
  int64_t max_model_len_ = 0;
  Buffer workspace_;
  Buffer logits_;                   // [kMaxLogitRows, vocab_size]
  std::vector<float> host_logits_;  // unused where the host reads the device's memory
};

}  // namespace octavo::engine
