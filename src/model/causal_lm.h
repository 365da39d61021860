// CausalLM: a decoder that turns a batch into logits through ops alone; it cannot name a device.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_cache.h"
#include "ops/ops.h"

namespace octavo::model {

// What one forward may hold at most; scratch memory is sized by it.
struct Limits {
  int64_t max_num_batched_tokens = 0;
  int64_t max_logit_rows = 0;
};

// Sizes for people and for bandwidth figures.
struct WeightTotals {
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t decode_bytes = 0;   // read to decode one token
  int64_t scratch_bytes = 0;  // of activations, by Limits
};

class CausalLM {
 public:
  virtual ~CausalLM() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const WeightTotals& totals() const = 0;

  // Writes this step's keys and values into `kv`, the logits of batch.logit_rows into `logits`
  // [num_logit_rows, vocab_size], and the hidden states of batch.hidden_rows after the last norm
  // into `hidden` [num_hidden_rows, hidden_size]. The batch stays within Limits.
  virtual void forward(ops::ExecContext& ctx, const ForwardBatch& batch, const KvCache& kv,
                       const ops::Mat& logits, const ops::Mat& hidden) = 0;
};

}  // namespace octavo::model
