// Speed of the prefill kernels on one GPU: TFLOPS (4 · queries · keys · head_dim · heads, under a
// causal mask of the keys seen) and microseconds a call, random values. "burst" is the median of
// single launches after a pause, each after a write of more than the L2 cache holds: as Triton's
// do_bench measures, before the power limit lowers the clock. "sustained" is the median of graph
// replays without a pause. Usage: attention_prefill_bench [substring of a row's name].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/attention_prefill.h"
#include "base/format.h"
#include "bench/kernels/program.h"
#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kLaunches = 10;  // of a graph
constexpr int kWarmUps = 3;
constexpr int kReplays = 11;
constexpr double kBurstUs = 60'000;
constexpr size_t kFlushBytes = size_t{256} << 20;

struct Row {
  std::string name;
  AttentionCase shape;
  enum { kAttention, kPlanToo, kPlanOnly } what = kAttention;  // in every launch
  bool portable = false;                                       // PrefillArgs::portable
};

struct Times {
  double burst_us, sustained_us;
};

double flops(const AttentionCase& shape) {
  double seen = 0;  // pairs of a query and a key it sees
  for (size_t s = 0; s < shape.q_lens.size(); ++s) {
    const double q = shape.q_lens[s];
    const double k = shape.kv_lens[s];
    seen += shape.window_right < 0 ? q * k : q * (k - q) + q * (q + 1) / 2;
  }
  return 4.0 * seen * shape.head_dim * shape.num_heads;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaEventCreate(&start_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }

  template <typename Call>
  double time_us(const Call& call) {
    check_cuda(cudaEventRecord(start_, stream_), "cudaEventRecord");
    call();
    check_cuda(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(stop_), "the kernel timed");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return ms * 1000.0;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_, stop_;
};

Times time_row(const Row& row) {
  const AttentionInputs inputs(row.shape);
  const AttentionOutputs outputs(inputs);
  PrefillArgs args = prefill_args(inputs, outputs);
  args.portable = row.portable;
  DeviceArray<uint8_t> workspace(prefill_workspace_bytes(args));
  DeviceArray<uint8_t> flush(kFlushBytes);
  workspace.fill_bytes(0);
  cudaStream_t stream;
  check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(plan_prefill(args, workspace.data(), stream));
  const auto launch = [&] {
    if (row.what != Row::kAttention) check(plan_prefill(args, workspace.data(), stream));
    if (row.what != Row::kPlanOnly) check(prefill_attention(args, workspace.data(), stream));
  };
  Stopwatch watch(stream);
  launch();
  const double first_us = watch.time_us(launch);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<double> burst, sustained;
  const int launches = std::clamp(static_cast<int>(kBurstUs / first_us), 10, 100);
  for (int i = 0; i < launches; ++i) {
    check_cuda(cudaMemsetAsync(flush.data(), 0, kFlushBytes, stream), "cudaMemsetAsync");
    burst.push_back(watch.time_us(launch));
  }

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
  for (int i = 0; i < kLaunches; ++i) launch();
  check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    const double us =
        watch.time_us([&] { check_cuda(cudaGraphLaunch(exec, stream), "cudaGraphLaunch"); });
    if (i >= kWarmUps) sustained.push_back(us / kLaunches);
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return {median(burst), median(sustained)};
}

AttentionCase uniform(int total, int length, int heads, int kv_heads, int head_dim, bool causal) {
  AttentionCase shape;
  shape.q_lens.assign(static_cast<size_t>(std::max(1, total / length)), length);
  shape.kv_lens = shape.q_lens;
  shape.num_heads = heads;
  shape.num_kv_heads = kv_heads;
  shape.head_dim = head_dim;
  shape.block_size = 0;
  shape.window_right = causal ? 0 : -1;
  return shape;
}

std::vector<Row> make_rows() {
  constexpr int kTokens = 16384;
  std::vector<Row> rows;
  struct Heads {
    int num, kv, dim;
  };
  for (const Heads h : {Heads{32, 8, 128}, {16, 16, 128}, {32, 32, 64}, {8, 8, 256}}) {
    for (const bool causal : {true, false}) {
      for (int length = 512; length <= kTokens; length *= 2) {
        const std::string name =
            format("hd{} {}/{} {} {}", h.dim, h.num, h.kv, causal ? "causal" : "full", length);
        const AttentionCase shape = uniform(kTokens, length, h.num, h.kv, h.dim, causal);
        rows.push_back({name, shape});
        rows.push_back({"portable " + name, shape, Row::kAttention, true});
      }
    }
  }
  rows.push_back(
      {"plan hd128 32/8 causal 512", uniform(kTokens, 512, 32, 8, 128, true), Row::kPlanToo});
  rows.push_back(
      {"plan hd128 32/8 causal 2048", uniform(kTokens, 2048, 32, 8, 128, true), Row::kPlanToo});
  rows.push_back({"plan only 512", uniform(kTokens, 512, 32, 8, 128, true), Row::kPlanOnly});
  AttentionCase skewed = uniform(kTokens, 512, 32, 8, 128, true);
  skewed.q_lens = {6000, 37, 512, 1500, 90, 240, 3000, 11, 700, 128, 2200, 64, 900, 5, 400, 600};
  skewed.kv_lens = skewed.q_lens;
  rows.push_back({"varlen hd128 32/8 causal skewed", skewed});
  for (const int block_size : {0, 16, 64, 256}) {
    AttentionCase chunk = uniform(4 * 512, 512, 32, 8, 128, true);
    for (int& length : chunk.kv_lens) length = 8192;
    chunk.block_size = block_size;
    for (const bool portable : {false, true}) {
      for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
        chunk.kv_dtype = dtype;
        rows.push_back(
            {octavo::format("{}chunk 4 x 512 on 8192 hd128 32/8 block {} {}",
                            portable ? "portable " : "", block_size, dtype_traits(dtype).name),
             chunk, Row::kAttention, portable});
      }
    }
    AttentionCase whole = uniform(kTokens, 8192, 32, 8, 128, true);
    whole.block_size = block_size;
    rows.push_back({format("paged hd128 32/8 causal 8192 block {}", block_size), whole});
  }
  AttentionCase window = uniform(kTokens, 16384, 32, 8, 128, true);
  window.window_left = 1023;
  rows.push_back({"window 1024 hd128 32/8 16384 (TFLOPS of the whole mask)", window});
  return rows;
}

void run(int argc, char** argv) {
  const char* const filter = argc > 1 ? argv[1] : "";
  for (const Row& row : make_rows()) {
    if (std::strstr(row.name.c_str(), filter) == nullptr) continue;
    const Times times = time_row(row);
    const double work = flops(row.shape) * 1e-6;
    std::printf("%-50s burst %8.1f us %4.0f TFLOPS, sustained %8.1f us %4.0f TFLOPS\n",
                row.name.c_str(), times.burst_us, work / times.burst_us, times.sustained_us,
                work / times.sustained_us);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace octavo::backends::cuda

int main(int argc, char** argv) {
  return octavo::backends::cuda::run_program(octavo::backends::cuda::run, argc, argv);
}
