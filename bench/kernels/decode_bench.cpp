// Times paged decode attention: 32 query heads on 8 of K and V, 128 values, blocks of 16 tokens in
// random order. A graph of at least 20 launches goes round caches of more than 120 MB together, so
// that none is in L2; the median of 50 replays after 10. Beside each, what reading as many bytes
// takes in the same run, with launches one after the other and overlapping.
//
//   decode_bench                        the table of docs/kernels.md
//   decode_bench BATCHxCONTEXT ...      only these
//   options before them: --fp8, --bf16, --token-scales (of fp8, in place of one by head),
//                        --portable, --serial (no overlap of launches), --blocks N, --enough N,
//                        --tokens N, --parts N (DecodeSplits), --dim N, --heads N,
//                        --once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/attention_decode.h"
#include "bench/kernels/program.h"
#include "bench/kernels/read_ceiling.h"
#include "bench/kernels/timing.h"
#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {
namespace {

struct Options {
  std::vector<DType> dtypes = {DType::kBF16, DType::kF8E4M3};
  bool token_scales = false, portable = false, serial = false, once = false;
  DecodeSplits splits;
  int head_dim = 128, num_heads = 32;
};

void bench(int batch, int context, DType dtype, const Options& options) {
  AttentionCase shape = {.q_lens = std::vector<int>(static_cast<size_t>(batch), 1),
                         .kv_lens = std::vector<int>(static_cast<size_t>(batch), context),
                         .num_heads = options.num_heads,
                         .head_dim = options.head_dim,
                         .kv_dtype = dtype,
                         .token_scales = options.token_scales && dtype == DType::kF8E4M3};
  const int64_t rows = int64_t{2} * batch * context * shape.num_kv_heads;
  const int64_t value_bytes = rows * dtype_bytes(dtype, shape.head_dim);
  const int64_t bytes = value_bytes + (shape.token_scales ? 4 * rows : 0);
  const auto num_caches =
      static_cast<size_t>(options.once ? 1 : std::max<int64_t>(3, kColdBytes / bytes + 2));
  const size_t launches = options.once ? 3 : std::max<size_t>(kMinLaunches, num_caches);
  std::vector<AttentionInputs> caches;
  for (size_t i = 0; i < num_caches; ++i) {
    caches.emplace_back(shape);
    ++shape.seed;
  }
  const AttentionOutputs outputs(caches[0]);
  std::vector<DecodeArgs> args;
  for (const AttentionInputs& cache : caches) {
    args.push_back(decode_args(cache, outputs));
    args.back().lse = nullptr;
    args.back().splits = options.splits;
    args.back().block_table = args[0].block_table;  // as the layers of a model share theirs
  }
  const DeviceArray<uint8_t> workspace(decode_workspace_bytes(args[0]));
  const DecodeLaunch launch = {.overlap_previous = !options.serial, .portable = options.portable};
  check(plan_decode(args[0], workspace.data(), nullptr));
  check_cuda(cudaDeviceSynchronize(), "plan_decode");
  const auto attend = [&](cudaStream_t stream) {
    for (size_t i = 0; i < launches; ++i) {
      check(decode_attention(args[i % num_caches], workspace.data(), stream, launch));
    }
  };
  if (options.once) return attend(nullptr), check_cuda(cudaDeviceSynchronize(), "attention");
  const auto read = [&](auto launch_kernel, bool overlap) {  // pools are twice as large as needed
    const double us = time_graph([&](cudaStream_t stream) {
      for (size_t i = 0; i < launches; ++i) {
        launch_kernel(args[i % num_caches].k, value_bytes, stream, overlap);
      }
    });
    return us / static_cast<double>(launches) * static_cast<double>(bytes) /
           static_cast<double>(value_bytes);
  };
  const double plan = time_graph([&](cudaStream_t stream) {
                        for (int i = 0; i < kMinLaunches; ++i)
                          check(plan_decode(args[0], workspace.data(), stream));
                      }) /
                      kMinLaunches;
  const double time = time_graph(attend) / static_cast<double>(launches);
  const double ceiling = read(launch_read, false), overlapped = read(launch_read, true);
  const double scattered = read(launch_scattered_read, true);
  const auto rate = [&](double us) { return static_cast<double>(bytes) / us * 1e-6; };
  std::printf(
      "%4d x %-6d %-5s %8.1f MB %8.2f us %6.3f TB/s  reading %6.3f (%5.1f%%)"
      "  overlapped %6.3f (%5.1f%%)  scattered %6.3f (%5.1f%%)  plan %5.2f us\n",
      batch, context, dtype == DType::kBF16 ? "bf16" : "fp8", static_cast<double>(bytes) * 1e-6,
      time, rate(time), rate(ceiling), 100.0 * ceiling / time, rate(overlapped),
      100.0 * overlapped / time, rate(scattered), 100.0 * scattered / time, plan);
  std::fflush(stdout);
}

void run(int argc, char** argv) {
  Options options;
  std::vector<std::pair<int, int>> cases;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    int batch = 0, context = 0;
    if (text == "--fp8")
      options.dtypes = {DType::kF8E4M3};
    else if (text == "--bf16")
      options.dtypes = {DType::kBF16};
    else if (text == "--token-scales")
      options.token_scales = true;
    else if (text == "--portable")
      options.portable = true;
    else if (text == "--serial")
      options.serial = true;
    else if (text == "--once")
      options.once = true;
    else if (text == "--blocks")
      options.splits.target_blocks = number();
    else if (text == "--enough")
      options.splits.enough_tokens = number();
    else if (text == "--tokens")
      options.splits.min_tokens = number();
    else if (text == "--parts")
      options.splits.part_splits = number();
    else if (text == "--dim")
      options.head_dim = number();
    else if (text == "--heads")
      options.num_heads = number();
    else if (std::sscanf(text.c_str(), "%dx%d", &batch, &context) == 2)
      cases.emplace_back(batch, context);
    else
      std::fprintf(stderr, "unknown: %s\n", text.c_str()), std::exit(2);
  }
  if (cases.empty()) {
    cases = {{1, 256},   {8, 256},   {32, 256},  {1, 2048},   {1, 16384}, {8, 2048},
             {1, 65536}, {32, 2048}, {8, 16384}, {128, 1024}, {32, 8192}, {128, 4096}};
  }
  for (const DType dtype : options.dtypes) {
    for (const auto& [batch, context] : cases) bench(batch, context, dtype, options);
  }
}

}  // namespace
}  // namespace octavo::backends::cuda

int main(int argc, char** argv) {
  return octavo::backends::cuda::run_program(octavo::backends::cuda::run, argc, argv);
}
