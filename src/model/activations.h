// Activations: scratch memory for one forward, and what every block of a layer runs with.
#pragma once

#include "model/causal_lm.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::model {

// Matrices for up to max_num_batched_tokens rows; blocks use the first ones. x and router_logits
// are kF32, the others `dtype`, which is Ops::activation_dtype.
struct Activations {
  static Result<Activations> create(Device& device, const ModelConfig& config, const Limits& limits,
                                    DType dtype);

  Buffer memory;
  ops::Mat x;          // [rows, hidden_size], the residual stream
  ops::Mat normed;     // [rows, hidden_size]
  ops::Mat q;          // [rows, num_attention_heads * head_dim]
  ops::Mat k, v;       // [rows, num_key_value_heads * head_dim]
  ops::Mat attention;  // as q
  ops::Mat gate, up;   // [rows, the widest dense or shared MLP]
  ops::Mat head;       // [logit rows, hidden_size]
  // Of a mixture of experts: rows are slots, except for those of router_logits.
  ops::Mat router_logits;           // [rows, num_experts]
  ops::Mat expert_x;                // [rows * top_k, hidden_size]
  ops::Mat expert_gate, expert_up;  // [rows * top_k, moe.intermediate_size]
  ops::ExpertPlan plan;
};

struct Step {
  const ModelConfig& config;
  const ops::Ops& ops;
  ops::ExecContext& ctx;
  const ForwardBatch& batch;
  const Activations& scratch;

  int64_t num_tokens() const { return batch.seqs.num_tokens; }
};

}  // namespace octavo::model
