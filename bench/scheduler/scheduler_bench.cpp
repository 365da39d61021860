// What the scheduler makes of a real load, and what it costs. Usage:
//   bench_scheduler TRACE [--num-requests=N] [--rate-scale=X] [--num-blocks=N] [--max-num-seqs=N]
//     [--max-num-batched-tokens=N] [--admission-factor=X] [--watermark=X] [--no-prefix-caching]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/percentile.h"
#include "bench/scheduler/simulator.h"

namespace octavo::bench {
namespace {

struct Arguments {
  const char* trace = nullptr;
  int64_t num_requests = 0;
  SimulatorConfig config;
};

bool read_flag(Arguments& arguments, const char* argument) {
  SimulatorConfig& config = arguments.config;
  if (std::strcmp(argument, "--no-prefix-caching") == 0) {
    config.enable_prefix_caching = false;
    return true;
  }
  const char* equals = std::strchr(argument, '=');
  if (equals == nullptr) return false;
  const std::string_view name(argument, equals);
  char* end = nullptr;
  const double number = std::strtod(equals + 1, &end);
  if (*end != '\0' || end == equals + 1 || !(number >= 0)) return false;
  const auto integer = static_cast<int64_t>(number);
  if (name == "--num-requests")
    arguments.num_requests = integer;
  else if (name == "--rate-scale" && number > 0)
    config.rate_scale = number;
  else if (name == "--num-blocks" && integer > 0)
    config.num_blocks = integer;
  else if (name == "--max-num-seqs" && integer > 0)
    config.scheduler.max_num_seqs = integer;
  else if (name == "--max-num-batched-tokens")
    config.scheduler.max_num_batched_tokens = integer;
  else if (name == "--admission-factor" && number >= 1)
    config.scheduler.admission_factor = number;
  else if (name == "--watermark" && number < 1)
    config.scheduler.watermark = number;
  else
    return false;
  return true;
}

void print_latencies(const char* name, const std::vector<double>& seconds) {
  std::printf("%-28s p50 %.1f ms, p90 %.1f ms, p99 %.1f ms\n", name, 1e3 * percentile(seconds, 50),
              1e3 * percentile(seconds, 90), 1e3 * percentile(seconds, 99));
}

double share(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

void print(const SimulatorResult& r) {
  std::printf("requests                     %lld (%lld refused)\n",
              static_cast<long long>(r.num_requests), static_cast<long long>(r.num_refused));
  std::printf("simulated                    %.1f s, %.0f generated tokens/s\n", r.simulated_s,
              static_cast<double>(r.generated_tokens) / r.simulated_s);
  print_latencies("time to first token", r.ttft_s);
  print_latencies("inter-token latency", r.itl_s);
  std::printf("preemptions                  %lld; %lld admissions overtook\n",
              static_cast<long long>(r.totals.preemptions),
              static_cast<long long>(r.totals.overtakes));
  std::printf("prefix cache                 %.1f %% of prompt tokens; of recomputed ones %.1f %%\n",
              share(r.totals.prefix_cache_hits, r.totals.prefix_cache_queries),
              share(r.totals.recomputed_hits, r.totals.recomputed_queries));
  std::printf("KV slots without a token     %.2f %%; with the longest request reserved %.1f %%\n",
              100 * r.paged_waste, 100 * r.contiguous_waste);
  std::printf("scheduling                   %.1f us a step (longest %.0f us), %.1f M tokens/s\n",
              1e6 * r.scheduling_s / static_cast<double>(r.num_steps), 1e6 * r.longest_step_s,
              1e-6 * static_cast<double>(r.scheduled_tokens) / r.scheduling_s);
}

int run(int argc, char** argv) {
  Arguments arguments;
  arguments.config.scheduler.max_num_batched_tokens = 8192;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      good = good && read_flag(arguments, argv[i]);
    } else {
      good = good && arguments.trace == nullptr;
      arguments.trace = argv[i];
    }
  }
  engine::SchedulerConfig& scheduler = arguments.config.scheduler;
  if (!good || arguments.trace == nullptr ||
      scheduler.max_num_batched_tokens < scheduler.max_num_seqs) {
    std::fprintf(stderr, "usage: see the head of bench/scheduler/scheduler_bench.cpp\n");
    return 2;
  }
  scheduler.max_logit_rows = scheduler.max_num_seqs;
  const auto trace = cli::read_trace(arguments.trace, arguments.num_requests);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", trace.status().message().c_str());
    return 1;
  }
  print(simulate(*trace, arguments.config));
  std::printf("256 running, 2,000 waiting   %.1f us a step\n", 1e6 * time_steady_step(256, 2000));
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  return octavo::bench::run(argc, argv);
}
