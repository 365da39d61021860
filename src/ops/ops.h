// The contract between models and backends: one args struct per operation, and `struct Ops`, the
// resolved function pointers. Destination first; shapes in brackets, outermost first; activations
// are kF32 unless said. No op allocates: scratch is an argument or ExecContext::workspace.
//
// Determinism, within one kernel set: the result for a row does not depend on the other rows of the
// batch, on how a prompt was cut into chunks, or on the number of threads. Each output sums over K
// in one order; threads split output columns or rows, never K.
#pragma once

#include <cstddef>
#include <cstdint>

#include "octavo/status.h"
#include "ops/attention_args.h"
#include "ops/mat.h"
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
};

// out[t, :] = table[token_ids[t], :]. out: [num_tokens, table.cols]; ids are in range.
struct EmbedArgs {
  Mat out;
  const Weight* table = nullptr;       // [vocab_size, hidden_size]
  const int32_t* token_ids = nullptr;  // [num_tokens]
};

// out = x / sqrt(mean(x^2) + eps) * weight, by row. out may be x. (Zhang and Sennrich, 2019)
struct RmsNormArgs {
  Mat out;                        // [n, d]
  Mat x;                          // [n, d]
  const float* weight = nullptr;  // [d]
  float eps = 1e-5f;
};

// out = x · wᵀ (+ bias).
struct LinearArgs {
  Mat out;  // [n, w.rows]
  Mat x;    // [n, w.cols]
  const Weight* w = nullptr;
  const float* bias = nullptr;  // [w.rows] or null
};

// Rotates pairs (i, i + rotary_dim/2) of every head in place: the rotate-half order, also for
// weights whose file uses adjacent pairs (they are reordered at load). angle(t, i) = positions[t] *
// inv_freq[i]; cos and sin are multiplied by attention_factor.
struct RopeArgs {
  Mat x;                               // [num_tokens, num_heads * head_dim]
  const int32_t* positions = nullptr;  // [num_tokens]
  const float* inv_freq = nullptr;     // [rotary_dim / 2]
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // <= head_dim, even; the rest of a head is left as it is
  float attention_factor = 1.0f;
};

// out = silu(gate) * up, silu(z) = z / (1 + exp(-z)). out may be gate.
struct SiluMulArgs {
  Mat out;   // [n, d]
  Mat gate;  // [n, d]
  Mat up;    // [n, d]
};

// out += x
struct AddArgs {
  Mat out;
  Mat x;
};

// out[i, :] = x[row_ids[i], :]
struct GatherRowsArgs {
  Mat out;
  Mat x;
  const int32_t* row_ids = nullptr;  // [out.rows]
};

// Composite operations: the boundaries at which a backend may fuse. The default of each is the
// sequence of primitives in composite.cpp.

// normed = rms_norm(x); q, k, v = linear(normed); rope(q), rope(k); write_kv(k, v).
struct NormQkvRopeWriteArgs {
  Mat x;                               // [n, hidden_size]
  const float* norm_weight = nullptr;  // [hidden_size]
  float eps = 1e-5f;
  const Weight* q_proj = nullptr;
  const Weight* k_proj = nullptr;
  const Weight* v_proj = nullptr;
  const float* q_bias = nullptr;  // or null, as k_bias and v_bias
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* inv_freq = nullptr;  // [rotary_dim / 2]
  int64_t rotary_dim = 0;
  float attention_factor = 1.0f;
  PagedKv kv;
  SequenceBatch batch;
  Mat q;       // out: [n, num_heads * head_dim]
  Mat normed;  // scratch: [n, hidden_size]
  Mat k;       // scratch: [n, num_kv_heads * head_dim]
  Mat v;       // scratch: same
};

// x += linear(y)
struct LinearResidualArgs {
  Mat x;  // [n, w.rows]
  Mat y;  // [n, w.cols]
  const Weight* w = nullptr;
  const float* bias = nullptr;
  Mat scratch;  // [n, w.rows]
};

// x += down(silu(gate(norm(x))) * up(norm(x)))
struct NormGatedMlpArgs {
  Mat x;  // [n, hidden_size]
  const float* norm_weight = nullptr;
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
};

// logits = linear(norm(x[row_ids]))
struct NormLmHeadArgs {
  Mat logits;                        // [num_rows, vocab_size]
  Mat x;                             // [n, hidden_size]
  const int32_t* row_ids = nullptr;  // [num_rows]
  const float* norm_weight = nullptr;
  float eps = 1e-5f;
  const Weight* lm_head = nullptr;
  Mat normed;  // scratch: [num_rows, hidden_size]
};

struct Ops;
template <typename Args>
using OpFn = void (*)(ExecContext&, const Args&);
template <typename Args>
using CompositeFn = void (*)(const Ops&, ExecContext&, const Args&);

// A backend's kernels, resolved for one machine and one choice of arithmetic. Every pointer is set.
struct Ops {
  OpFn<EmbedArgs> embed = nullptr;
  OpFn<RmsNormArgs> rms_norm = nullptr;
  OpFn<LinearArgs> linear_by_dtype[kNumDTypes] = {};  // null: pack_weight refuses that dtype
  OpFn<RopeArgs> rope = nullptr;
  OpFn<WriteKvArgs> write_kv = nullptr;
  OpFn<AttentionArgs> attention = nullptr;
  OpFn<SiluMulArgs> silu_mul = nullptr;
  OpFn<AddArgs> add = nullptr;
  OpFn<GatherRowsArgs> gather_rows = nullptr;

  CompositeFn<NormQkvRopeWriteArgs> norm_qkv_rope_write = nullptr;
  CompositeFn<LinearResidualArgs> linear_residual = nullptr;
  CompositeFn<NormGatedMlpArgs> norm_gated_mlp = nullptr;
  CompositeFn<NormLmHeadArgs> norm_lm_head = nullptr;

  // Brings a matrix [rows, cols] into the layout that `linear` (and `embed`) reads; may be a view
  // of the tensor's own memory. Errors name the tensor.
  Result<Weight> (*pack_weight)(const Ops&, Device&, const Tensor&) = nullptr;

  // Workspace that any op needs for up to `max_rows` rows of `max_cols` input values.
  int64_t (*workspace_bytes)(int64_t max_rows, int64_t max_cols, int num_threads) = nullptr;

  void linear(ExecContext& ctx, const LinearArgs& args) const {
    linear_by_dtype[static_cast<int>(args.w->dtype)](ctx, args);
  }
};

// Fills every composite that is still null with its default.
void set_default_composites(Ops& ops);

}  // namespace octavo::ops
