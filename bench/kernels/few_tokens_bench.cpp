// Times products of few tokens with the matrices of a Llama 3 8B, bfloat16, E4M3 and 4-bit codes in
// groups, beside cuBLASLt (of E4M3 with an input that is rounded already, of codes with parts that
// become bfloat16) and beside plain reading of as many bytes. Graphs of at least 20 launches that
// go round more than 120 MB of weights and may overlap, as in a step of decoding; the median of 50
// replays after 10.
//
//   few_tokens_bench [bf16|fp8|int4-g32|int4-g64|int4-g128] [TOKENS ...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/few_tokens_wgmma.h"
#include "backends/cuda/linear_int4.h"
#include "backends/cuda/matmul.h"
#include "backends/cuda/tile/int4_tiles.h"
#include "bench/kernels/program.h"
#include "bench/kernels/read_ceiling.h"
#include "bench/kernels/timing.h"
#include "tests/gpu/attention_values.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

// Of 4-bit codes: what the kernel of few tokens is timed for, to compare.
constexpr int64_t kMostInt4Tokens = 128;

struct Projection {
  const char* name;
  int64_t out_features, in_features;
  bool gated;  // half of the rows are the gate's
};
constexpr Projection kProjections[] = {{"o_proj", 4096, 4096, false},
                                       {"qkv_proj", 6144, 4096, false},
                                       {"gate_up_proj", 28672, 4096, true},
                                       {"down_proj", 4096, 14336, false},
                                       {"lm_head", 128256, 4096, false}};

// Weights enough that none is left in the L2 cache when its turn comes again.
class Weights {
 public:
  Weights(const Projection& p, DType dtype, int group)
      : dtype_(dtype),
        group_(group),
        bytes_(group > 0 ? Int4Tiles{p.out_features, p.in_features, group}.bytes()
                         : dtype_bytes(dtype, p.out_features * p.in_features)) {
    const int64_t count = std::max<int64_t>(2, kColdBytes / bytes_ + 1);
    for (int64_t i = 0; i < count; ++i) {
      memory_.emplace_back(static_cast<size_t>(bytes_ / 2));
      // As codes these are any, NaN among them, which takes as long.
      fill_random_bf16(memory_.back().data(), bytes_ / 2, 1 + static_cast<uint64_t>(i));
    }
  }

  DType dtype() const { return dtype_; }
  int group() const { return group_; }  // of 4-bit codes, else 0
  int64_t bytes() const { return bytes_; }
  const void* data(size_t i) const { return memory_[i % memory_.size()].data(); }

  // Microseconds of a launch.
  template <typename Launch>
  double time(const Launch& launch) const {
    const size_t launches = std::max<size_t>(kMinLaunches, memory_.size());
    return time_graph([&](cudaStream_t stream) {
             for (size_t i = 0; i < launches; ++i) launch(data(i), stream);
           }) /
           static_cast<double>(launches);
  }

 private:
  DType dtype_;
  int group_;
  int64_t bytes_;
  std::vector<DeviceArray<uint16_t>> memory_;
};

// `scales`: of E4M3, by row.
ops::Weight make_weight(const void* data, const Weights& of, int64_t rows, int64_t cols,
                        const float* scales) {
  ops::Weight w;
  w.dtype = of.dtype();
  w.rows = rows;
  w.cols = cols;
  w.data = static_cast<const std::byte*>(data);
  if (w.dtype == DType::kF8E4M3) {
    w.scales = scales;
    w.scale_block = cols;
    w.input = {.rounding = ops::InputRounding::kDynamicE4M3, .group = cols, .by_kernel = true};
  }
  if (of.group() > 0) {
    w.layout = ops::PackedLayout::kInt4Tiles;
    w.group = of.group();
    w.layout_bytes = int4_tiles(w).bytes();
  }
  return w;
}

void bench(Matmul& matmul, const Projection& p, const Weights& weights, int64_t num_tokens,
           double read_us) {
  DeviceArray<uint16_t> x(static_cast<size_t>(num_tokens * p.in_features));
  fill_random_bf16(x.data(), num_tokens * p.in_features, 99);
  const DeviceArray<uint16_t> out(static_cast<size_t>(num_tokens * p.out_features));
  const DeviceArray<float> scales(
      std::vector<float>(static_cast<size_t>(std::max(p.out_features, num_tokens)), 0.01f));
  const int64_t rows = p.gated ? p.out_features / 2 : p.out_features;
  FewTokensArgs few;
  few.x = ops::Mat(x.data(), DType::kBF16, num_tokens, p.in_features);
  few.out[0] = ops::Mat(out.data(), DType::kBF16, num_tokens, rows);
  few.gated = p.gated;
  const auto multiply = [&](const void* data, cudaStream_t stream) {
    const ops::Weight first = make_weight(data, weights, rows, p.in_features, scales.data());
    const ops::Weight second =
        make_weight(first.data + weights.bytes() / 2, weights, rows, p.in_features, scales.data());
    few.w[0] = &first;
    few.w[1] = p.gated ? &second : nullptr;
    if (multiplies_by_wgmma(few)) return multiply_few_tokens(few, stream);
    multiply_few_tokens_streamed(few, stream);
  };
  MatmulArgs args;
  args.out = out.data();
  args.x = x.data();
  args.num_tokens = num_tokens;
  args.out_features = p.out_features;
  args.in_features = p.in_features;
  args.dtype = weights.group() > 0 ? DType::kBF16 : weights.dtype();
  args.x_scale = args.w_scale = scales.data();
  args.scale_rows = args.dtype == DType::kF8E4M3;
  const int64_t part_rows = weights.group() > 0 ? kDecodedBytes / 2 / p.in_features / 128 * 128 : 0;
  const DeviceArray<uint16_t> decoded(static_cast<size_t>(part_rows * p.in_features));
  const auto library = [&](const void* data, cudaStream_t stream) {
    args.w = data;
    if (weights.group() == 0) return check(matmul.run(args, stream));
    const ops::Weight w = make_weight(data, weights, p.out_features, p.in_features, nullptr);
    for (int64_t first = 0; first < w.rows; first += part_rows) {
      args.out_features = std::min(part_rows, w.rows - first);
      args.out_stride = p.out_features;
      args.out = out.data() + first;
      args.w = decoded.data();
      decode_int4(decoded.data(), w, first, args.out_features, stream);
      check(matmul.run(args, stream));
    }
  };
  const Stream stream;
  library(weights.data(0), stream.get());  // measures
  stream.synchronize();
  const auto bytes = static_cast<double>(weights.bytes());
  const double library_us = weights.time(library);
  std::printf("%-12s %3lld tokens, cuBLASLt %7.2f us %5.2f TB/s", p.name,
              static_cast<long long>(num_tokens), library_us, bytes / library_us * 1e-6);
  const int64_t most_tokens = weights.group() > 0          ? kMostInt4Tokens
                              : args.dtype == DType::kBF16 ? kWgmmaTokens
                                                           : kStreamedTokens;
  if (num_tokens <= most_tokens) {  // else cuBLASLt is what runs
    if (args.dtype == DType::kF8E4M3) {
      if (num_tokens == 1) std::printf(", rounding its input %7.2f us", weights.time(multiply));
      few.rounded = {reinterpret_cast<uint8_t*>(x.data()), scales.data(), num_tokens,
                     p.in_features};
    }
    const double us = weights.time(multiply);
    std::printf(", octavo %7.2f us %5.2f TB/s, %3.0f %% of reading, %4.2f x", us, bytes / us * 1e-6,
                100 * read_us / us, library_us / us);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void run(int argc, char** argv) {
  std::vector<int64_t> tokens;
  DType dtype = DType::kBF16;
  int first = 1, group = 0;
  const std::string_view type = argc > 1 ? argv[1] : "";
  if (type == "fp8") dtype = DType::kF8E4M3;
  if (type.starts_with("int4-g")) {
    dtype = DType::kQ4_0;
    group = std::atoi(argv[1] + 6);
  }
  if (argc > 1 && std::atoi(argv[1]) == 0) ++first;
  for (int i = first; i < argc; ++i) tokens.push_back(std::max(1, std::atoi(argv[i])));
  if (tokens.empty()) tokens = {1, 2, 4, 8, 16, 32, 64};
  const auto device = CudaDevice::open(0);
  check(device.status());
  const auto matmul = Matmul::create(**device, "");
  check(matmul.status());
  for (const Projection& projection : kProjections) {
    const Weights weights(projection, dtype, group);
    const double read_us = weights.time([&](const void* data, cudaStream_t stream) {
      launch_read(data, weights.bytes() / 16384 * 16384, stream, true);
    });
    std::printf("%s %-12s %6.1f MB, reading %5.2f TB/s\n", dtype_traits(dtype).name.data(),
                projection.name, static_cast<double>(weights.bytes()) * 1e-6,
                static_cast<double>(weights.bytes()) / read_us * 1e-6);
    for (const int64_t n : tokens) bench(**matmul, projection, weights, n, read_us);
  }
}

}  // namespace
}  // namespace octavo::backends::cuda

int main(int argc, char** argv) {
  return octavo::backends::cuda::run_program(octavo::backends::cuda::run, argc, argv);
}
