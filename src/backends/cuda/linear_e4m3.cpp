#include "backends/cuda/linear_e4m3.h"

#include <algorithm>
#include <initializer_list>

#include "backends/cuda/device_error.h"
#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ops_state.h"
#include "backends/cuda/tile/stream_plan.h"
#include "base/check.h"

namespace octavo::backends::cuda {
namespace {

struct Product {
  ops::Mat out;
  const ops::Weight* w;
  const float* bias = nullptr;
};

MatmulArgs matmul_args(const Product& p, const E4M3Rows& x, bool accumulate) {
  MatmulArgs args;
  args.out = p.out.data;
  args.out_dtype = p.out.dtype;
  args.out_stride = p.out.stride;
  args.accumulate = accumulate;
  args.dtype = DType::kF8E4M3;
  args.x = x.codes;
  args.x_scale = x.scales;
  args.w = p.w->data;
  args.w_scale = p.w->scales;
  args.scale_rows = true;
  args.num_tokens = x.rows;
  args.out_features = p.w->rows;
  args.in_features = p.w->cols;
  return args;
}

// False where cuBLASLt has no kernel for one of them; then nothing was added to anything.
bool multiply(ops::ExecContext& ctx, std::initializer_list<Product> products, const E4M3Rows& x,
              bool accumulate = false) {
  OCTAVO_CHECK(!accumulate || products.size() == 1);
  for (const Product& p : products) {
    MatmulArgs args = matmul_args(p, x, accumulate);
    if (!Matmul::fits(args)) return false;
    // Added before what is bfloat16 is rounded. To what others have written it is added at the end.
    const bool begins = p.bias != nullptr && !accumulate;
    if (begins) fill_bias(ctx, p.out, p.bias);
    args.accumulate = accumulate || begins;
    const Status status = state_of(ctx).matmul().run(args, stream_of(ctx));
    if (status.code() == StatusCode::kUnsupported) return false;
    check_op(status);
    if (p.bias != nullptr && accumulate) add_bias(ctx, p.out, p.bias);
  }
  return true;
}

bool is_e4m3(const ops::Weight& w) {
  return w.dtype == DType::kF8E4M3;
}

// Whether one input serves all: E4M3 matrices that want it in one form.
bool share_codes(std::initializer_list<const ops::Weight*> weights) {
  const ops::Weight& first = **weights.begin();
  return std::all_of(weights.begin(), weights.end(),
                     [&](const ops::Weight* w) { return is_e4m3(*w) && w->input == first.input; });
}

}  // namespace

void linear_e4m3(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate) {
  FewTokensArgs few;
  few.out[0] = a.out;
  few.w[0] = a.w;
  few.bias[0] = a.bias;
  few.x = a.x;
  few.accumulate = accumulate;
  if (rounds_itself(few)) return multiply_few_tokens(few, stream_of(ctx));
  // x may lie at the beginning of the workspace.
  const int64_t offset = dtype_bytes(DType::kBF16, a.x.rows * a.x.cols);
  const E4M3Rows x = e4m3_rows(ctx, offset, a.x.rows, a.x.cols);
  round_input(ctx, x, a.x, a.w->input);
  few.rounded = x;
  if (streams_few_tokens(few)) return multiply_few_tokens(few, stream_of(ctx));
  if (multiply(ctx, {{a.out, a.w, a.bias}}, x, accumulate)) return;
  // Every E4M3 matrix can be streamed for so many tokens.
  for (int64_t first = 0; first < a.x.rows; first += kStreamTokens) {
    const int64_t rows = std::min<int64_t>(kStreamTokens, a.x.rows - first);
    few.out[0] = a.out.row_range(first, rows);
    few.x = a.x.row_range(first, rows);
    few.rounded = {x.codes + first * x.cols, x.scales + first, rows, x.cols};
    multiply_few_tokens(few, stream_of(ctx));
  }
}

bool linear_qkv_e4m3(ops::ExecContext& ctx, const ops::NormQkvRopeWriteArgs& a) {
  if (!share_codes({a.q_proj, a.k_proj, a.v_proj})) return false;
  if (a.norm_weight == nullptr || !reads_fours(a.x)) return false;
  const E4M3Rows x = e4m3_rows(ctx, 0, a.x.rows, a.x.cols);
  round_norm(ctx, x, {a.normed, a.x, a.norm_weight, a.eps}, a.q_proj->input);
  const FewTokensArgs few = {.out = {a.q, a.k, a.v},
                             .w = {a.q_proj, a.k_proj, a.v_proj},
                             .bias = {a.q_bias, a.k_bias, a.v_bias},
                             .x = a.normed,
                             .rounded = x};
  if (streams_few_tokens(few)) {
    multiply_few_tokens(few, stream_of(ctx));
    return true;
  }
  return multiply(
      ctx, {{a.q, a.q_proj, a.q_bias}, {a.k, a.k_proj, a.k_bias}, {a.v, a.v_proj, a.v_bias}}, x);
}

GateUp norm_gate_up_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a) {
  if (!share_codes({a.gate_proj, a.up_proj})) return GateUp::kNone;
  if (a.norm_weight == nullptr || !reads_fours(a.x)) return GateUp::kNone;
  const E4M3Rows x = e4m3_rows(ctx, 0, a.x.rows, a.x.cols);
  round_norm(ctx, x, {a.normed, a.x, a.norm_weight, a.eps}, a.gate_proj->input);
  const FewTokensArgs few = {.out = {a.gate},
                             .w = {a.gate_proj, a.up_proj},
                             .bias = {a.gate_bias, a.up_bias},
                             .x = a.normed,
                             .rounded = x,
                             .gated = true,
                             .activation = a.activation};
  if (streams_few_tokens(few)) {
    multiply_few_tokens(few, stream_of(ctx));
    return GateUp::kGated;
  }
  const bool done =
      multiply(ctx, {{a.gate, a.gate_proj, a.gate_bias}, {a.up, a.up_proj, a.up_bias}}, x);
  return done ? GateUp::kBoth : GateUp::kNone;
}

bool gated_down_e4m3(ops::ExecContext& ctx, const ops::NormGatedMlpArgs& a) {
  if (!is_e4m3(*a.down_proj) || a.post_norm_weight != nullptr) return false;
  if (!reads_fours(a.gate) || !reads_fours(a.up)) return false;
  const E4M3Rows x = e4m3_rows(ctx, 0, a.gate.rows, a.gate.cols);
  round_gated(ctx, x, {a.gate, a.gate, a.up, a.activation}, a.down_proj->input);
  return multiply(ctx, {{a.x, a.down_proj, a.down_bias}}, x, true);
}

}  // namespace octavo::backends::cuda
