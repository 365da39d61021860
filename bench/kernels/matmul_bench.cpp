// Times matrix products of a Llama 3 8B by cuBLASLt: with the algorithm found by measurement, and
// with the one that cuBLASLt thinks best. Graphs of at least 20 launches that go round more than
// 120 MB of weights; the median of 50 replays after 10.
//
//   matmul_bench [TOKENS ...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cuda/matmul.h"
#include "bench/kernels/program.h"
#include "bench/kernels/timing.h"
#include "tests/gpu/attention_values.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

struct Projection {
  const char* name;
  int64_t out_features, in_features;
};
constexpr Projection kProjections[] = {{"qkv_proj", 6144, 4096},
                                       {"o_proj", 4096, 4096},
                                       {"gate_up_proj", 28672, 4096},
                                       {"down_proj", 4096, 14336}};

// Random normal values; of E4M3 the bytes of some, without NaN.
DeviceArray<uint8_t> make_matrix(int64_t count, DType dtype, uint64_t seed) {
  const auto values = static_cast<size_t>(count);
  if (dtype == DType::kBF16) {
    DeviceArray<uint8_t> matrix(2 * values);
    fill_random_bf16(reinterpret_cast<uint16_t*>(matrix.data()), count, seed);
    return matrix;
  }
  std::vector<uint8_t> bytes(values);
  uint64_t state = seed;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56) & 0xBF;  // magnitudes below 2
  }
  return DeviceArray<uint8_t>(bytes);
}

void bench(Matmul& matmul, const Projection& p, int64_t num_tokens, DType dtype) {
  const int64_t weight_bytes = dtype_bytes(dtype, p.out_features * p.in_features);
  std::vector<DeviceArray<uint8_t>> weights;
  for (int64_t i = 0; i < std::max<int64_t>(2, kColdBytes / weight_bytes + 1); ++i) {
    weights.push_back(
        make_matrix(p.out_features * p.in_features, dtype, 1 + static_cast<uint64_t>(i)));
  }
  const DeviceArray<uint8_t> x = make_matrix(num_tokens * p.in_features, dtype, 99);
  const DeviceArray<uint16_t> out(static_cast<size_t>(num_tokens * p.out_features));
  const DeviceArray<float> x_scale(std::vector<float>(static_cast<size_t>(num_tokens), 0.5f));
  const DeviceArray<float> w_scale(std::vector<float>(static_cast<size_t>(p.out_features), 0.01f));
  MatmulArgs args;
  args.out = out.data();
  args.x = x.data();
  args.dtype = dtype;
  args.num_tokens = num_tokens;
  args.out_features = p.out_features;
  args.in_features = p.in_features;
  args.x_scale = x_scale.data();
  args.w_scale = w_scale.data();
  args.scale_rows = dtype == DType::kF8E4M3;
  const Stream stream;
  args.w = weights[0].data();
  check(matmul.run(args, stream.get()));
  stream.synchronize();
  const size_t launches = std::max<size_t>(kMinLaunches, weights.size());
  const auto time = [&](auto run_one) {
    return time_graph([&](cudaStream_t captured) {
             for (size_t i = 0; i < launches; ++i) {
               args.w = weights[i % weights.size()].data();
               check((matmul.*run_one)(args, captured));
             }
           }) /
           static_cast<double>(launches);
  };
  const double measured = time(&Matmul::run), unmeasured = time(&Matmul::run_unmeasured);
  const double flops =
      2e-6 * static_cast<double>(num_tokens * p.out_features) * static_cast<double>(p.in_features);
  std::printf(
      "%-12s %-13s %5lld tokens %8.2f us %7.1f TFLOPS, weights %6.3f TB/s; unmeasured %8.2f us "
      "(%.2f x)\n",
      p.name, dtype == DType::kBF16 ? "bf16" : "fp8 rows", static_cast<long long>(num_tokens),
      measured, flops / measured, static_cast<double>(weight_bytes) / measured * 1e-6, unmeasured,
      unmeasured / measured);
  std::fflush(stdout);
}

void run(int argc, char** argv) {
  std::vector<int64_t> tokens;
  for (int i = 1; i < argc; ++i) tokens.push_back(std::max(1, std::atoi(argv[i])));
  if (tokens.empty()) tokens = {1, 8, 16, 32, 64, 128, 256, 512, 2048, 8192};
  const auto device = CudaDevice::open(0);
  check(device.status());
  const auto matmul = Matmul::create(**device, "");
  check(matmul.status());
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    if (dtype == DType::kF8E4M3 && (*device)->properties().compute_capability != 90) continue;
    for (const Projection& projection : kProjections) {
      for (const int64_t n : tokens) bench(**matmul, projection, n, dtype);
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda

int main(int argc, char** argv) {
  return octavo::backends::cuda::run_program(octavo::backends::cuda::run, argc, argv);
}
