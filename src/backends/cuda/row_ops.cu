// Ops that compute each value from a few others, or each row from itself: bound by memory, four
// values a thread at a time where rows allow.
#include <cuda_fp8.h>

#include <algorithm>

#include "backends/cuda/launch.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/activate.cuh"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 132 * 16;  // more would only wait

// --- each value by itself ---

// Op::at<kWidth>(row, col) computes columns [col, col + kWidth).
template <int kWidth, typename Op>
__global__ void __launch_bounds__(kThreads) each_value_kernel(Op op, int64_t rows, int64_t cols) {
  pdl_launch_next();
  pdl_wait();
  const int64_t across = cols / kWidth;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows * across;
       i += step) {
    op.template at<kWidth>(i / across, i % across * kWidth);
  }
}

template <typename Op>
void each_value(const char* name, ops::ExecContext& ctx, const ops::Mat& shape, bool fours,
                const Op& op) {
  const int64_t items = shape.rows * shape.cols / (fours ? 4 : 1);
  if (items == 0) return;
  const int64_t blocks = std::min((items + kThreads - 1) / kThreads, kMaxBlocks);
  const LaunchShape launch_shape = {.grid = dim3(static_cast<unsigned>(blocks)),
                                    .block = dim3(kThreads),
                                    .overlap_previous = true};
  auto kernel = fours ? each_value_kernel<4, Op> : each_value_kernel<1, Op>;
  launch(name, kernel, launch_shape, stream_of(ctx), op, shape.rows, shape.cols);
}

// row_ids and scales may be null.
template <typename Out, typename In>
struct Gather {
  Rows<Out> out;
  Rows<const In> x;
  const int32_t* row_ids;
  const float* scales;
  float scale;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    const int64_t source = row_ids != nullptr ? row_ids[row] : row;
    Values<kWidth> values = load<kWidth>(x.at(source, col));
    const float factor = scales != nullptr ? scales[row] : scale;
    for (float& value : values.v) value *= factor;
    store<kWidth>(out.at(row, col), values);
  }
};

void gather(const char* name, ops::ExecContext& ctx, const ops::Mat& out, const ops::Mat& x,
            const int32_t* row_ids, const float* scales, float scale) {
  with_type(out.dtype, [&]<typename Out>() {
    with_type(x.dtype, [&]<typename In>() {
      each_value(name, ctx, out, takes_fours(out) && takes_fours(x),
                 Gather<Out, In>{Rows<Out>(out), Rows<const In>(x), row_ids, scales, scale});
    });
  });
}

template <typename T>
struct ActivationMul {
  Rows<T> out;
  Rows<const T> gate, up;
  ops::Activation activation;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(gate.at(row, col));
    const Values<kWidth> factors = load<kWidth>(up.at(row, col));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] = activate(values.v[i], activation) * factors.v[i];
    store<kWidth>(out.at(row, col), values);
  }
};

template <typename T>
struct Softcap {
  Rows<T> x;
  float cap;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(x.at(row, col));
    for (float& value : values.v) value = cap * tanhf(value / cap);
    store<kWidth>(x.at(row, col), values);
  }
};

template <typename Out, typename In>
struct Add {
  Rows<Out> out;
  Rows<const In> x;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(out.at(row, col));
    const Values<kWidth> others = load<kWidth>(x.at(row, col));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] += others.v[i];
    store<kWidth>(out.at(row, col), values);
  }
};

template <typename T>
struct Bias {
  Rows<T> out;
  const float* bias;
  bool add;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(bias + col);
    if (add) {
      const Values<kWidth> others = load<kWidth>(out.at(row, col));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values.v[i] += others.v[i];
    }
    store<kWidth>(out.at(row, col), values);
  }
};

void put_bias(const char* name, ops::ExecContext& ctx, const ops::Mat& out, const float* bias,
              bool add) {
  const ops::Mat row(const_cast<float*>(bias), DType::kF32, 1, out.cols);
  with_type(out.dtype, [&]<typename T>() {
    each_value(name, ctx, out, takes_fours(out) && takes_fours(row),
               Bias<T>{Rows<T>(out), bias, add});
  });
}

// Rows of a table of E4M3 codes, each with a scale.
template <typename Out>
struct EmbedCodes {
  Rows<Out> out;
  const __nv_fp8_storage_t* codes;
  const float* scales;
  const int32_t* row_ids;
  float scale;
  int64_t cols;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    const int64_t source = row_ids[row];
    Values<kWidth> values;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const __nv_fp8_storage_t code = codes[source * cols + col + i];
      values.v[i] =
          __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3))) * scales[source] * scale;
    }
    store<kWidth>(out.at(row, col), values);
  }
};

template <typename T>
struct ScaleQueries {
  Rows<T> x;
  const int32_t* positions;
  float attn_scale, floor_scale;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    const float steps = floorf((static_cast<float>(positions[row]) + 1.0f) / floor_scale);
    const float scale = 1.0f + attn_scale * log1pf(steps);
    Values<kWidth> values = load<kWidth>(x.at(row, col));
    for (float& value : values.v) value *= scale;
    store<kWidth>(x.at(row, col), values);
  }
};

template <typename Out, typename In>
struct CombineExperts {
  Rows<Out> out;
  Rows<const In> y;
  const int32_t* slots;
  const float* weights;  // null: 1
  int64_t top_k;

  template <int kWidth>
  __device__ void at(int64_t row, int64_t col) const {
    Values<kWidth> sums = load<kWidth>(out.at(row, col));
    for (int64_t j = 0; j < top_k; ++j) {
      const int32_t slot = slots[row * top_k + j];
      const float weight = weights != nullptr ? weights[slot] : 1.0f;
      const Values<kWidth> values = load<kWidth>(y.at(slot, col));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums.v[i] += weight * values.v[i];
    }
    store<kWidth>(out.at(row, col), sums);
  }
};

// --- RMS norm ---

__device__ float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

// blockDim.x threads take a row, blockDim.y rows a block: one row where that is more than a warp.
template <int kWidth, typename Out, typename In>
__global__ void __launch_bounds__(1024)
    rms_norm_kernel(Rows<Out> out, Rows<const In> x, const int32_t* row_ids, const float* weight,
                    float eps, int64_t rows, int64_t cols) {
  __shared__ float warp_sums[32];
  pdl_launch_next();
  pdl_wait();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int64_t source = row_ids != nullptr ? row_ids[row] : row;
  const int64_t first = static_cast<int64_t>(threadIdx.x) * kWidth;
  const int64_t step = static_cast<int64_t>(blockDim.x) * kWidth;
  float sum = 0.0f;
  for (int64_t col = first; col < cols; col += step) {
    const Values<kWidth> values = load<kWidth>(x.at(source, col));
    for (const float value : values.v) sum += value * value;
  }
  sum = warp_sum(sum);
  if (blockDim.x > 32) {
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    sum = warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
  }
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(cols) + eps);
  for (int64_t col = first; col < cols; col += step) {
    Values<kWidth> values = load<kWidth>(x.at(source, col));
    const Values<kWidth> factors = load<kWidth>(weight + col);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] = values.v[i] * scale * factors.v[i];
    store<kWidth>(out.at(row, col), values);
  }
}

}  // namespace

void gather_rms_norm(ops::ExecContext& ctx, const ops::RmsNormArgs& a, const int32_t* row_ids) {
  if (a.out.rows == 0) return;
  const int64_t cols = a.x.cols;
  const bool fours = takes_fours(a.out) && takes_fours(a.x);
  constexpr int64_t kShort = 512;  // heads: a warp each
  const int64_t wanted = (cols / (fours ? 4 : 1) + 31) / 32 * 32;
  const auto threads =
      static_cast<unsigned>(cols <= kShort ? 32 : std::clamp(wanted, int64_t{32}, int64_t{1024}));
  const unsigned rows_each = threads == 32 ? 8 : 1;
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>((a.out.rows + rows_each - 1) / rows_each)),
      .block = dim3(threads, rows_each),
      .overlap_previous = true};
  with_type(a.out.dtype, [&]<typename Out>() {
    with_type(a.x.dtype, [&]<typename In>() {
      auto kernel = fours ? rms_norm_kernel<4, Out, In> : rms_norm_kernel<1, Out, In>;
      launch("rms_norm", kernel, shape, stream_of(ctx), Rows<Out>(a.out), Rows<const In>(a.x),
             row_ids, a.weight, a.eps, a.out.rows, cols);
    });
  });
}

void rms_norm(ops::ExecContext& ctx, const ops::RmsNormArgs& a) {
  gather_rms_norm(ctx, a, nullptr);
}

void embed(ops::ExecContext& ctx, const ops::EmbedArgs& a) {
  const ops::Weight& table = *a.table;
  if (table.dtype == DType::kF8E4M3) {
    return with_type(a.out.dtype, [&]<typename Out>() {
      each_value(
          "embed", ctx, a.out, takes_fours(a.out),
          EmbedCodes<Out>{Rows<Out>(a.out), reinterpret_cast<const __nv_fp8_storage_t*>(table.data),
                          table.scales, a.token_ids, a.scale, table.cols});
    });
  }
  const ops::Mat rows(const_cast<std::byte*>(table.data), table.dtype, table.rows, table.cols);
  gather("embed", ctx, a.out, rows, a.token_ids, nullptr, a.scale);
}

void gather_rows(ops::ExecContext& ctx, const ops::GatherRowsArgs& a) {
  gather("gather_rows", ctx, a.out, a.x, a.row_ids, a.scales, 1.0f);
}

void convert(ops::ExecContext& ctx, const ops::Mat& out, const ops::Mat& x) {
  gather("convert", ctx, out, x, nullptr, nullptr, 1.0f);
}

void activation_mul(ops::ExecContext& ctx, const ops::ActivationMulArgs& a) {
  OCTAVO_CHECK(a.gate.dtype == a.out.dtype && a.up.dtype == a.out.dtype);
  with_type(a.out.dtype, [&]<typename T>() {
    each_value(
        "activation_mul", ctx, a.out,
        takes_fours(a.out) && takes_fours(a.gate) && takes_fours(a.up),
        ActivationMul<T>{Rows<T>(a.out), Rows<const T>(a.gate), Rows<const T>(a.up), a.activation});
  });
}

void softcap(ops::ExecContext& ctx, const ops::SoftcapArgs& a) {
  with_type(a.x.dtype, [&]<typename T>() {
    each_value("softcap", ctx, a.x, takes_fours(a.x), Softcap<T>{Rows<T>(a.x), a.cap});
  });
}

void add(ops::ExecContext& ctx, const ops::AddArgs& a) {
  with_type(a.out.dtype, [&]<typename Out>() {
    with_type(a.x.dtype, [&]<typename In>() {
      each_value("add", ctx, a.out, takes_fours(a.out) && takes_fours(a.x),
                 Add<Out, In>{Rows<Out>(a.out), Rows<const In>(a.x)});
    });
  });
}

void fill_bias(ops::ExecContext& ctx, const ops::Mat& out, const float* bias) {
  put_bias("fill_bias", ctx, out, bias, false);
}

void add_bias(ops::ExecContext& ctx, const ops::Mat& out, const float* bias) {
  put_bias("add_bias", ctx, out, bias, true);
}

void scale_queries(ops::ExecContext& ctx, const ops::ScaleQueriesArgs& a) {
  with_type(a.x.dtype, [&]<typename T>() {
    each_value("scale_queries", ctx, a.x, takes_fours(a.x),
               ScaleQueries<T>{Rows<T>(a.x), a.positions, a.attn_scale, a.floor_scale});
  });
}

void combine_experts(ops::ExecContext& ctx, const ops::CombineExpertsArgs& a) {
  const float* weights = a.weighs ? a.plan.slot_weights : nullptr;
  with_type(a.out.dtype, [&]<typename Out>() {
    with_type(a.y.dtype, [&]<typename In>() {
      each_value("combine_experts", ctx, a.out, takes_fours(a.out) && takes_fours(a.y),
                 CombineExperts<Out, In>{Rows<Out>(a.out), Rows<const In>(a.y), a.plan.slots,
                                         weights, a.top_k});
    });
  });
}

}  // namespace octavo::backends::cuda
