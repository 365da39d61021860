// The contract between models and backends: one args struct per operation, and `struct Ops`, the
// resolved function pointers. Destination first; shapes in brackets, outermost first. No op
// allocates: scratch is an argument or ExecContext::workspace. Of activations the residual stream
// x, logits, hidden states and router logits are kF32, all others Ops::activation_dtype.
//
// Determinism, within one kernel set: the result for a row does not depend on the other rows of the
// batch, on how a prompt was cut into chunks, or on the number of threads. Each output sums over K
// in one order; threads split output columns or rows, never K.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "octavo/status.h"
#include "ops/attention_args.h"
#include "ops/draw_args.h"
#include "ops/mat.h"
#include "ops/moe_args.h"
#include "ops/weight.h"
#include "tensor/tensor.h"

namespace octavo {
class Device;
class ThreadPool;
}  // namespace octavo

namespace octavo::ops {

// What an op runs with; one per engine, passed to every call.
struct ExecContext {
  ThreadPool* pool = nullptr;      // host backends
  std::byte* workspace = nullptr;  // at least Ops::workspace_bytes(...), aligned to 64 bytes
  int64_t workspace_bytes = 0;
  Device* device = nullptr;  // GPU backends
};

// What pack_weight works with; one for each model that is loaded.
struct PackContext {
  Device& device;
  ThreadPool* pool = nullptr;    // null: the calling thread alone
  std::shared_ptr<void> memory;  // the backend's own, from one tensor to the next
};

// out[t, :] = scale * table[token_ids[t], :]. out: [num_tokens, table.cols]; ids are in range.
struct EmbedArgs {
  Mat out;
  const Weight* table = nullptr;       // [vocab_size, hidden_size]
  const int32_t* token_ids = nullptr;  // [num_tokens]
  float scale = 1.0f;
};

// out = x / sqrt(mean(x^2) + eps) * weight, by row. out may be x. (Zhang and Sennrich, 2019)
struct RmsNormArgs {
  Mat out;                        // [n, d]
  Mat x;                          // [n, d]
  const float* weight = nullptr;  // [d]
  float eps = 1e-5f;
};

// out = x · wᵀ (+ bias). A kernel takes x as it is: Ops::linear has brought it into w->input's
// form.
struct LinearArgs {
  Mat out;  // [n, w.rows]
  Mat x;    // [n, w.cols]
  const Weight* w = nullptr;
  const float* bias = nullptr;  // [w.rows] or null
};

// out[t, i] = x[t, form.order[i]], rounded as the form says. out is not x.
struct PrepareInputArgs {
  Mat out;  // [n, cols]
  Mat x;    // [n, cols]
  InputForm form;
};

// Rotates pairs (i, i + rotary_dim/2) of every head in place: the rotate-half order, also for
// weights whose file uses adjacent pairs (they are reordered at load). angle(t, i) = positions[t] *
// inv_freq[variants[t], i]; cos and sin are multiplied by attention_factor.
struct RopeArgs {
  Mat x;                               // [num_tokens, num_heads * head_dim]
  const int32_t* positions = nullptr;  // [num_tokens]
  const float* inv_freq = nullptr;     // [num_variants, rotary_dim / 2]
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // <= head_dim, even; the rest of a head is left as it is
  float attention_factor = 1.0f;
  const int32_t* variants = nullptr;  // [num_tokens]; null: variant 0 for all
};

// x[t, :] *= 1 + attn_scale * ln(1 + floor((positions[t] + 1) / floor_scale)): the temperature of
// attention that Llama 4 lets grow with the position in layers without rotation.
struct ScaleQueriesArgs {
  Mat x;                               // [num_tokens, num_heads * head_dim]
  const int32_t* positions = nullptr;  // [num_tokens]
  float attn_scale = 0;
  float floor_scale = 1;
};

// Of a gated MLP: silu(z) = z / (1 + exp(-z)), gelu_tanh(z) = z / (1 + exp(-2u)) with
// u = sqrt(2 / pi) * (z + 0.044715 z^3). (Hendrycks and Gimpel, 2016)
enum class Activation : uint8_t { kSilu, kGeluTanh };

// out = activation(gate) * up. out may be gate.
struct ActivationMulArgs {
  Mat out;   // [n, d]
  Mat gate;  // [n, d]
  Mat up;    // [n, d]
  Activation activation = Activation::kSilu;
};

// x = cap * tanh(x / cap)
struct SoftcapArgs {
  Mat x;
  float cap = 0;
};

// out += x
struct AddArgs {
  Mat out;
  Mat x;
};

// out[i, :] = scales[i] * x[row_ids[i], :]
struct GatherRowsArgs {
  Mat out;
  Mat x;
  const int32_t* row_ids = nullptr;  // [out.rows]
  const float* scales = nullptr;     // [out.rows]; null: as they are
};

// Composite operations: the boundaries at which a backend may fuse. The default of each is the
// sequence of primitives in composite.cpp.

// Over how many values queries and keys are normalised by themselves, before they are rotated.
enum class QkNorm : uint8_t { kNone, kPerHead, kAllHeads };

// normed = rms_norm(x); q, k, v = linear(normed); q, k = rms_norm(q), rms_norm(k); rope(q),
// rope(k); scale_queries(q); write_kv(k, v).
struct NormQkvRopeWriteArgs {
  Mat x;                               // [n, hidden_size]
  const float* norm_weight = nullptr;  // [hidden_size]; null: the projections read x
  float eps = 1e-5f;
  const Weight* q_proj = nullptr;
  const Weight* k_proj = nullptr;
  const Weight* v_proj = nullptr;
  const float* q_bias = nullptr;  // or null, as k_bias and v_bias
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  QkNorm qk_norm = QkNorm::kNone;
  const float* q_norm_weight = nullptr;  // [head_dim] or [num_heads * head_dim]
  const float* k_norm_weight = nullptr;  // [head_dim] or [num_kv_heads * head_dim]
  const float* inv_freq = nullptr;       // as in RopeArgs
  const int32_t* rope_variants = nullptr;
  int64_t rotary_dim = 0;  // 0: no rotation
  float attention_factor = 1.0f;
  float query_attn_scale = 0;  // as in ScaleQueriesArgs; 0: queries are left as they are
  float query_floor_scale = 1;
  PagedKv kv;
  SequenceBatch batch;
  Mat q;       // out: [n, num_heads * head_dim], without gaps
  Mat normed;  // scratch: [n, hidden_size]
  Mat k;       // scratch: [n, num_kv_heads * head_dim], without gaps
  Mat v;       // scratch: same
};

// x += rms_norm(linear(y))
struct LinearResidualArgs {
  Mat x;  // [n, w.rows]
  Mat y;  // [n, w.cols]
  const Weight* w = nullptr;
  const float* bias = nullptr;
  Mat scratch;                         // [n, w.rows]
  const float* norm_weight = nullptr;  // [w.rows]; null: not normalised
  float eps = 1e-5f;
};

// x += rms_norm(down(activation(gate(norm(x))) * up(norm(x))))
struct NormGatedMlpArgs {
  Mat x;                               // [n, hidden_size]
  const float* norm_weight = nullptr;  // null: gate and up read x
  float eps = 1e-5f;
  const Weight* gate_proj = nullptr;
  const Weight* up_proj = nullptr;
  const Weight* down_proj = nullptr;
  const float* gate_bias = nullptr;  // or null, as the others
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  Mat normed;  // scratch: [n, hidden_size]
  Mat gate;    // scratch: [n, intermediate_size]
  Mat up;      // scratch: [n, intermediate_size]
  Activation activation = Activation::kSilu;
  const float* post_norm_weight = nullptr;  // null: not normalised
};

// x += shared expert(norm(x)) + the chosen experts, weighed, of norm(x).
struct NormMoeArgs {
  Mat x;  // [n, hidden_size]
  const float* norm_weight = nullptr;
  float eps = 1e-5f;
  const Weight* router = nullptr;  // [num_experts, hidden_size]
  Routing routing;
  const Weight* gate_proj = nullptr;  // [num_experts] matrices [moe_intermediate_size, hidden_size]
  const Weight* up_proj = nullptr;    // same
  const Weight* down_proj = nullptr;  // [num_experts] matrices [hidden_size, moe_intermediate_size]
  const Weight* shared_gate_proj = nullptr;  // null: no shared expert
  const Weight* shared_up_proj = nullptr;
  const Weight* shared_down_proj = nullptr;
  Activation activation = Activation::kSilu;
  Mat normed;         // scratch: [n, hidden_size]
  Mat router_logits;  // scratch: [n, num_experts]
  ExpertPlan plan;    // scratch
  Mat expert_x;       // scratch: [n * top_k, hidden_size]
  Mat expert_gate;    // scratch: [n * top_k, moe_intermediate_size]
  Mat expert_up;      // scratch: same
  Mat shared_gate;    // scratch: [n, shared intermediate size]
  Mat shared_up;      // scratch: same
};

// logits = softcap(linear(norm(x[row_ids])))
struct NormLmHeadArgs {
  Mat logits;                        // [num_rows, vocab_size]
  Mat x;                             // [n, hidden_size]
  const int32_t* row_ids = nullptr;  // [num_rows]
  const float* norm_weight = nullptr;
  float eps = 1e-5f;
  const Weight* lm_head = nullptr;
  Mat normed;         // scratch: [num_rows, hidden_size]
  float softcap = 0;  // 0: none
};

struct Ops;
template <typename Args>
using OpFn = void (*)(ExecContext&, const Args&);
template <typename Args>
using CompositeFn = void (*)(const Ops&, ExecContext&, const Args&);

// A backend's kernels, resolved for one machine and one choice of arithmetic. Every pointer is set,
// but where its comment says so.
struct Ops {
  DType activation_dtype = DType::kF32;  // kF32 on host backends

  OpFn<EmbedArgs> embed = nullptr;
  OpFn<RmsNormArgs> rms_norm = nullptr;
  // By the dtype of a packed weight. Null: pack_weight refuses that dtype, or makes another of it.
  OpFn<LinearArgs> linear_by_dtype[kNumDTypes] = {};
  OpFn<PrepareInputArgs> prepare_input = nullptr;
  OpFn<RopeArgs> rope = nullptr;
  OpFn<WriteKvArgs> write_kv = nullptr;
  OpFn<AttentionArgs> attention = nullptr;
  OpFn<ScaleQueriesArgs> scale_queries = nullptr;
  OpFn<ActivationMulArgs> activation_mul = nullptr;
  OpFn<SoftcapArgs> softcap = nullptr;
  OpFn<AddArgs> add = nullptr;
  OpFn<GatherRowsArgs> gather_rows = nullptr;
  OpFn<RouteArgs> route = nullptr;
  OpFn<CombineExpertsArgs> combine_experts = nullptr;
  OpFn<DrawTokensArgs> draw_tokens = nullptr;  // null where the host's own sampler reads the logits

  CompositeFn<NormQkvRopeWriteArgs> norm_qkv_rope_write = nullptr;
  CompositeFn<LinearResidualArgs> linear_residual = nullptr;
  CompositeFn<NormGatedMlpArgs> norm_gated_mlp = nullptr;
  CompositeFn<LinearExpertsArgs> linear_experts = nullptr;
  CompositeFn<NormMoeArgs> norm_moe = nullptr;
  CompositeFn<NormLmHeadArgs> norm_lm_head = nullptr;

  // Brings a matrix [rows, cols] into the layout that `linear` (and `embed`) reads; may be a view
  // of the tensor's own memory. Row i is row source_rows[i] of the tensor; none: as they lie there.
  // Errors name the tensor.
  Result<Weight> (*pack_weight)(const Ops&, PackContext&, const Tensor&,
                                std::span<const int64_t> source_rows) = nullptr;
  // Packs the codes of a quantised matrix, whose scales and input form are those of `form`, a
  // weight without data, where `linear` computes with such codes. Nothing where it does not: then
  // the values are packed. Null: it does with those of every type in linear_by_dtype.
  Result<std::optional<Weight>> (*pack_codes)(const Ops&, PackContext&, const Tensor&,
                                              const Weight& form) = nullptr;

  // Workspace that any op needs for up to `max_rows` rows of `max_cols` input values; beside it
  // prepared_input_bytes where weights ask for a form of their input.
  int64_t (*workspace_bytes)(int64_t max_rows, int64_t max_cols, int num_threads) = nullptr;

  void linear(ExecContext& ctx, const LinearArgs& args) const;
};

// The room for an input in the form that a weight asks for.
int64_t prepared_input_bytes(int64_t rows, int64_t cols);

// Fills every composite that is still null with its default.
void set_default_composites(Ops& ops);

// Defaults that a fused form leaves to what it does not fuse.
void norm_qkv_rope_write(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& args);
void linear_residual(const Ops& ops, ExecContext& ctx, const LinearResidualArgs& args);
void norm_gated_mlp(const Ops& ops, ExecContext& ctx, const NormGatedMlpArgs& args);

// What norm_qkv_rope_write does once q, k and v are multiplied, and the first part of that, by
// which q and k are normalised.
void finish_qkv(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& args);
void norm_qk(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& args);

}  // namespace octavo::ops
