// Simulator: the engine's own scheduler and block manager, against a model of how long a step takes
// in place of a device. What it says of latency follows from that model; what it says of
// scheduling time, preemptions, hit rate and waste is the real thing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cli/trace.h"
#include "engine/scheduler.h"

namespace octavo::bench {

using cli::make_prompt;
using cli::read_trace;
using cli::TraceRequest;

struct SimulatorConfig {
  engine::SchedulerConfig scheduler;
  int64_t num_blocks = 20000;
  int64_t block_size = 16;
  bool enable_prefix_caching = true;
  double rate_scale = 1;  // requests come so many times as fast as in the trace

  // Seconds of a step: the weights are read, every token computed, every token of context read. The
  // defaults are about those of an 8B model in 16 bits on an H100.
  double step_s = 5e-3;
  double token_s = 40e-6;
  double context_token_s = 40e-9;
};

struct SimulatorResult {
  int64_t num_requests = 0;
  int64_t num_refused = 0;  // can never fit
  double simulated_s = 0;
  double scheduling_s = 0;    // real time
  double longest_step_s = 0;  // the same, of one step
  int64_t num_steps = 0;
  int64_t scheduled_tokens = 0;
  int64_t generated_tokens = 0;
  std::vector<double> ttft_s, itl_s;
  engine::Scheduler::Totals totals;
  double paged_waste = 0;       // of the slots of used blocks, those without a token; by time
  double contiguous_waste = 0;  // if each running sequence had room for the longest request
};

SimulatorResult simulate(const std::vector<cli::TraceRequest>& trace,
                         const SimulatorConfig& config);

// Seconds of one step with so many sequences that decode, and others that wait.
double time_steady_step(int64_t num_running, int64_t num_waiting);

}  // namespace octavo::bench
