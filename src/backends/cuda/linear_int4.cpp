#include "backends/cuda/linear_int4.h"

#include <algorithm>

#include "backends/cuda/device_error.h"
#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ops_state.h"
#include "backends/cuda/tile/int4_tiles.h"
#include "backends/cuda/tile/stream_plan.h"
#include "base/check.h"

namespace octavo::backends::cuda {
namespace {

constexpr int64_t kPartRows = 128;  // a multiple of which parts have: whole tiles of products

// Of parts of about one size.
int64_t rows_of_a_part(const ops::Weight& w) {
  const int64_t row_bytes = dtype_bytes(DType::kBF16, w.cols);
  const int64_t most = std::max(kDecodedBytes / row_bytes / kPartRows, int64_t{1}) * kPartRows;
  const int64_t parts = (w.rows - 1) / most + 1;
  return ((w.rows - 1) / parts / kPartRows + 1) * kPartRows;
}

void multiply_streamed(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate) {
  FewTokensArgs few;
  few.w[0] = a.w;
  few.bias[0] = a.bias;
  few.accumulate = accumulate;
  for (int64_t first = 0, rows = 0; first < a.x.rows; first += rows) {
    const int64_t left = a.x.rows - first;
    rows = std::min(kStreamedInt4Tokens, left);
    // What is left for the end must not be so few that it is summed in another order.
    if (left > rows && left - rows <= kStreamTokens) rows -= kStreamedTokens;
    few.out[0] = a.out.row_range(first, rows);
    few.x = a.x.row_range(first, rows);
    multiply_few_tokens(few, stream_of(ctx));
  }
}

// Rows [first, first + count) of the matrix and these columns of the result; false where cuBLASLt
// has no kernel for them.
bool multiply_part(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate, int64_t first,
                   int64_t count) {
  const ops::Mat out = a.out.columns(first, count);
  MatmulArgs args;
  args.out = out.data;
  args.out_dtype = out.dtype;
  args.out_stride = out.stride;
  args.accumulate = accumulate;
  args.x = a.x.data;
  args.x_stride = a.x.stride;
  args.w = state_of(ctx).decoded();
  args.num_tokens = a.x.rows;
  args.out_features = count;
  args.in_features = a.w->cols;
  if (!Matmul::fits(args)) return false;
  decode_int4(state_of(ctx).decoded(), *a.w, first, count, stream_of(ctx));
  const Status status = state_of(ctx).matmul().run(args, stream_of(ctx));
  if (status.code() == StatusCode::kUnsupported) return false;
  check_op(status);
  return true;
}

}  // namespace

void linear_int4(ops::ExecContext& ctx, const ops::LinearArgs& a, bool accumulate) {
  const int64_t part_rows = rows_of_a_part(*a.w);
  const bool in_parts = dtype_bytes(DType::kBF16, part_rows * a.w->cols) <= kDecodedBytes;
  if (a.x.rows <= kStreamedInt4Tokens || !in_parts) return multiply_streamed(ctx, a, accumulate);
  // Added before what is bfloat16 is rounded.
  if (a.bias != nullptr && !accumulate) fill_bias(ctx, a.out, a.bias);
  if (a.bias != nullptr && accumulate) add_bias(ctx, a.out, a.bias);
  accumulate |= a.bias != nullptr;
  for (int64_t first = 0; first < a.w->rows; first += part_rows) {
    const int64_t count = std::min(part_rows, a.w->rows - first);
    if (multiply_part(ctx, a, accumulate, first, count)) continue;
    ops::Weight part = *a.w;
    part.data += first / kInt4Rows * int4_tiles(part).half_tile_bytes();
    part.rows = count;
    multiply_streamed(ctx, {a.out.columns(first, count), a.x, &part}, accumulate);
  }
}

}  // namespace octavo::backends::cuda
