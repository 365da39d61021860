// ModelRunner: a model, its KV cache and its scratch memory on one device; runs one batch at a
// time. Which block belongs to whom is its callers' business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/registry.h"
#include "base/thread_pool.h"
#include "engine/batch.h"
#include "engine/executor.h"
#include "model/causal_lm.h"
#include "model/kv_cache.h"
#include "model/kv_groups.h"
#include "model/weights.h"
#include "octavo/model.h"

namespace octavo::engine {

struct RunnerLimits {
  int64_t block_size = 16;

  // Rows of one forward; 0: as many as suit the backend, at least max_logit_rows.
  int64_t max_num_batched_tokens = 0;

  // Rows of which logits are computed at once: bounds their memory (48 MB at 49,152 entries).
  int64_t max_logit_rows = 256;
};

class ModelRunner final : public Executor {
 public:
  // Without a KV cache yet: resize_kv_cache() must come before the first forward.
  static Result<std::unique_ptr<ModelRunner>> create(const formats::Checkpoint& checkpoint,
                                                     const LoadOptions& options,
                                                     const RunnerLimits& limits = {});

  // What `create` would take; see measure_memory() in octavo/model.h.
  static Result<MemoryNeeds> measure(const formats::Checkpoint& checkpoint,
                                     const LoadOptions& options);

  const model::CausalLM& model() const { return *model_; }
  const backends::Backend& backend() const { return backend_; }
  const RunnerLimits& limits() const { return limits_; }
  const backends::AttentionChoice& attention() const { return attention_; }
  int num_threads() const { return pool_->num_threads(); }
  DType kv_cache_dtype() const { return kv_dtype_; }
  int64_t num_kv_blocks() const { return kv_ == nullptr ? 0 : kv_->num_blocks(); }
  int64_t kv_bytes_per_token() const;
  int64_t kv_block_bytes() const;
  // Of all memory but weights and KV cache; taken as it is touched.
  int64_t workspace_bytes() const {
    return model_->totals().scratch_bytes + workspace_.size_bytes + logits_.size_bytes +
           hidden_.size_bytes + tokens_.size_bytes;
  }
  int64_t max_model_len() const { return max_model_len_; }
  const model::KvGroups& kv_groups() const { return kv_groups_; }

  // Computes the slices and moves their num_computed_tokens on, within limits(). `draws` as in
  // Plan.
  Result<StepOutput> forward(std::span<const ScheduledSlice> slices,
                             std::span<const ops::RowDraw> draws = {});

  // Which rotary frequencies a sequence of up to `max_tokens` tokens has, for Sequence.
  int64_t rope_variant(int64_t max_tokens) const {
    return model::rope_variant(model_->config().rope, std::min(max_tokens, max_model_len_));
  }

  // On a host device a step is computed where it is begun.
  Status execute_async(const Plan& plan) override;
  Result<StepOutput> wait() override;
  // Choosing experts waits for the device in every layer.
  bool is_async() const override { return !backend_.device->host_accessible() && !has_experts(); }
  ThreadPool* pool() override { return pool_.get(); }

  // Replaces the KV cache by an empty one of at least `num_blocks` blocks; what it held is lost. An
  // error leaves the old one.
  Status resize_kv_cache(int64_t num_blocks);

 private:
  explicit ModelRunner(const RunnerLimits& limits) : limits_(limits) {}
  bool has_experts() const { return model_->config().moe.routing.num_experts > 0; }
  Status load(const formats::Checkpoint& checkpoint, const LoadOptions& options,
              model::LoadMode mode);
  Status load_model(const formats::Checkpoint& checkpoint, const LoadOptions& options,
                    model::LoadMode mode);
  // What is begun and not yet waited for.
  struct Step {
    std::span<const ScheduledSlice> slices;
    StepOutput output;  // in device memory
  };
  Status begin(std::span<const ScheduledSlice> slices, std::span<const ops::RowDraw> draws);
  Result<StepOutput> end();
  Status run_model(const model::ForwardBatch& batch, const StepOutput& output);
  Status fetch_logits();
  Status reserve_host(Buffer& buffer, int64_t size_bytes);
  Status choose_kv_cache(const LoadOptions& options, const std::string& path);

  RunnerLimits limits_;
  backends::Backend backend_;
  backends::AttentionChoice attention_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<model::CausalLM> model_;
  std::unique_ptr<model::KvCache> kv_;
  std::unique_ptr<BatchBuilder> batch_builder_;
  model::KvGroups kv_groups_;
  DType kv_dtype_ = DType::kBF16;
  int64_t max_model_len_ = 0;
  int64_t record_id_ = 0;  // of this model with this KV cache, among all of the process
  Buffer workspace_;
  Buffer logits_;  // [max_logit_rows, vocab_size]
  Buffer hidden_;  // [max_num_batched_tokens, hidden_size]
  Buffer tokens_;  // [max_logit_rows] of int32_t
  // Unused where the host reads the device's memory.
  Buffer host_logits_, host_hidden_, host_tokens_;
  Step step_;
};

}  // namespace octavo::engine
