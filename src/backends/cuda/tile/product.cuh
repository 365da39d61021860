// Products of few tokens as their kernels see them: up to three matrices with one input, cut into
// tiles of rows, and what is done with a finished sum.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/tile/activate.cuh"
#include "backends/cuda/tile/int4_tiles.h"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {

struct ProductMatrix {
  const std::byte* w;
  const float* scales;  // by row; or null
  const float* bias;    // or null
  void* out;
  int64_t out_stride;
  int rows;
  int first_tile;  // that holds rows of it
};

// As FewTokensArgs, for a kernel whose tiles have a certain number of rows.
struct ProductCall {
  ProductMatrix matrices[kMaxMatrices];
  int num_matrices;
  int num_tiles;
  const __nv_bfloat16* x;
  int64_t x_stride;
  int in_features;
  int64_t row_bytes;  // of a matrix; of 4-bit codes, of a half tile
  int num_tokens;
  ops::InputForm form;  // of E4M3 matrices: how x is rounded, where it is not yet
  E4M3Rows rounded;
  bool accumulate;
  bool gated;
  bool out_is_float;
  ops::Activation activation;
};

// A tile: kRows rows of one matrix or, gated, half of them of each of two.
template <int kRows>
struct ProductTile {
  const ProductMatrix* matrix;
  int first_row;
  bool gated;

  __device__ ProductTile(const ProductCall& call, int tile)
      : matrix(&call.matrices[0]), gated(call.gated) {
    if (!gated) {
      while (matrix + 1 < call.matrices + call.num_matrices && tile >= matrix[1].first_tile) {
        ++matrix;
      }
    }
    first_row = (tile - matrix->first_tile) * (gated ? kRows / 2 : kRows);
  }
  __device__ const ProductMatrix& matrix_of(int i) const {
    return gated && i >= kRows / 2 ? matrix[1] : *matrix;
  }
  __device__ int row_of(int i) const { return first_row + (gated ? i % (kRows / 2) : i); }
  // Beyond the last row the last is read again, and nothing is stored.
  __device__ const std::byte* weights(int i, int64_t row_bytes) const {
    const int row = min(row_of(i), matrix->rows - 1);
    return matrix_of(i).w + row * row_bytes;
  }
  // Of 4-bit codes and 16 rows: the half tile with rows 8 h to 8 h + 7, or the last.
  __device__ const std::byte* half_tile(int h, int64_t half_tile_bytes) const {
    static_assert(kRows == 2 * kInt4Rows);
    const int at = min(row_of(kInt4Rows * h), matrix->rows - 1) / kInt4Rows;
    return matrix_of(kInt4Rows * h).w + at * half_tile_bytes;
  }
  // Rows that have a result.
  __device__ int results() const { return gated ? kRows / 2 : kRows; }

  // Stores the result of row i, one of results(), for a token of the call; sum(i) is the product
  // of row i with it.
  template <typename Sum>
  __device__ void finish(const ProductCall& call, int i, int token, const Sum& sum) const {
    const int row = row_of(i);
    if (token >= call.num_tokens || row >= matrix->rows) return;
    const auto with_bias = [&](int of) {
      const ProductMatrix& of_row = matrix_of(of);
      const float product = of_row.scales != nullptr ? sum(of) * of_row.scales[row] : sum(of);
      return product + (of_row.bias != nullptr ? of_row.bias[row] : 0.0f);
    };
    float value = with_bias(i);
    if (gated) {  // rounded as they are where both are stored first
      const auto round = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
      value = activate(round(value), call.activation) * round(with_bias(i + kRows / 2));
    }
    const int64_t at = token * matrix->out_stride + row;
    if (call.out_is_float) {
      put(static_cast<float*>(matrix->out) + at, call.accumulate, value);
    } else {
      put(static_cast<__nv_bfloat16*>(matrix->out) + at, call.accumulate, value);
    }
  }

 private:
  template <typename Out>
  __device__ static void put(Out* out, bool accumulate, float value) {
    if (accumulate) value += load<1>(out).v[0];
    store<1>(out, {value});
  }
};

// For tiles of `tile_rows` rows.
inline ProductCall make_product_call(const FewTokensArgs& args, int tile_rows) {
  ProductCall call = {};
  call.x = static_cast<const __nv_bfloat16*>(args.x.data);
  call.x_stride = args.x.stride;
  call.in_features = static_cast<int>(args.x.cols);
  const ops::Weight& of = *args.w[0];
  const bool int4 = of.layout == ops::PackedLayout::kInt4Tiles;
  call.row_bytes = int4 ? int4_tiles(of).half_tile_bytes() : of.row_bytes();
  call.form = of.input;
  call.rounded = args.rounded;
  call.num_tokens = static_cast<int>(args.x.rows);
  call.accumulate = args.accumulate;
  call.gated = args.gated;
  call.out_is_float = args.out[0].dtype == DType::kF32;
  call.activation = args.activation;
  const int rows_each = args.gated ? tile_rows / 2 : tile_rows;
  for (int i = 0; i < kMaxMatrices && args.w[i] != nullptr; ++i) {
    const ops::Weight& w = *args.w[i];
    OCTAVO_CHECK(w.dtype == of.dtype && w.layout == of.layout && w.group == of.group);
    OCTAVO_CHECK(w.cols == args.x.cols);
    OCTAVO_CHECK(w.dtype == DType::kBF16 || int4 || (w.scales != nullptr && w.input == call.form));
    const bool second_gate = args.gated && i == 1;  // which has no result of its own
    OCTAVO_CHECK(second_gate || (args.out[i].dtype == args.out[0].dtype &&
                                 (call.out_is_float || args.out[i].dtype == DType::kBF16)));
    call.matrices[call.num_matrices++] = {
        w.data,           w.scales,           args.bias[i],
        args.out[i].data, args.out[i].stride, static_cast<int>(w.rows),
        call.num_tiles};
    if (!second_gate) call.num_tiles += (static_cast<int>(w.rows) + rows_each - 1) / rows_each;
  }
  return call;
}

// Whether rows of the input and of the matrices can be read 16 bytes at a time.
inline bool reads_sixteen_bytes(const ProductCall& call) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  bool fits = call.row_bytes % 16 == 0 &&
              (call.rounded.codes != nullptr || (call.x_stride % 8 == 0 && aligned(call.x)));
  for (int i = 0; i < call.num_matrices; ++i) fits = fits && aligned(call.matrices[i].w);
  return fits;
}

}  // namespace octavo::backends::cuda
