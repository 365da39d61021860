#include "bench/scheduler/simulator.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"

namespace octavo::bench {
namespace {

using engine::BlockManager;
using engine::Plan;
using engine::ScheduledSlice;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceState;

struct Live {
  Sequence sequence;
  double arrival_s = 0;
  double last_token_s = -1;
};

class Simulator {
 public:
  Simulator(const std::vector<cli::TraceRequest>& trace, const SimulatorConfig& config)
      : trace_(trace),
        config_(config),
        blocks_(config.num_blocks, config.block_size, config.enable_prefix_caching),
        scheduler_(config.scheduler, blocks_) {
    for (const cli::TraceRequest& request : trace) {
      longest_ = std::max(longest_, request.input_length + request.output_length);
    }
  }

  SimulatorResult run() {
    while (next_ < trace_.size() || !live_.empty()) {
      if (live_.empty()) now_ = std::max(now_, arrival_of(next_));
      while (next_ < trace_.size() && arrival_of(next_) <= now_) add(next_++);
      if (!live_.empty()) step();
    }
    result_.num_requests = static_cast<int64_t>(trace_.size());
    result_.simulated_s = now_;
    result_.totals = scheduler_.totals();
    result_.paged_waste = unfilled_slots_ / std::max(1.0, used_slots_);
    result_.contiguous_waste = 1 - running_tokens_ / std::max(1.0, reserved_tokens_);
    return std::move(result_);
  }

 private:
  double arrival_of(size_t index) const { return trace_[index].arrival_s / config_.rate_scale; }

  // Real time of what the scheduler does.
  template <typename Fn>
  void timed(Fn fn) {
    const double start = now_seconds();
    fn();
    step_scheduling_s_ += now_seconds() - start;
  }

  void add(size_t index) {
    auto live = std::make_unique<Live>();
    live->arrival_s = arrival_of(index);
    Sequence& sequence = live->sequence;
    sequence.token_ids = cli::make_prompt(trace_[index], static_cast<int64_t>(index));
    sequence.max_num_tokens = trace_[index].input_length + trace_[index].output_length;
    sequence.first_logit_position = trace_[index].input_length - 1;
    if (!scheduler_.check_fits(1, sequence.max_num_tokens).ok()) {
      ++result_.num_refused;
      return;
    }
    timed([&] { scheduler_.add(sequence); });
    live_.emplace(&sequence, std::move(live));
  }

  void step() {
    Plan plan;
    timed([&] { plan = scheduler_.schedule(); });
    OCTAVO_CHECK(!plan.slices.empty());
    double context = 0;
    for (const ScheduledSlice& slice : plan.slices) {
      slice.sequence->num_computed_tokens += slice.num_tokens;
      context += static_cast<double>(slice.sequence->num_computed_tokens);
    }
    const double seconds = config_.step_s + config_.token_s * static_cast<double>(plan.num_tokens) +
                           config_.context_token_s * context;
    now_ += seconds;
    count_waste(seconds);
    timed([&] { scheduler_.complete(plan); });
    for (const ScheduledSlice& slice : plan.slices) {
      if (slice.sequence->num_pending_tokens() == 0) take_token(*slice.sequence);
    }
    ++result_.num_steps;
    result_.scheduled_tokens += plan.num_tokens;
    result_.scheduling_s += step_scheduling_s_;
    result_.longest_step_s = std::max(result_.longest_step_s, step_scheduling_s_);
    step_scheduling_s_ = 0;
  }

  void take_token(Sequence& sequence) {
    Live& live = *live_.at(&sequence);
    if (live.last_token_s < 0) {
      result_.ttft_s.push_back(now_ - live.arrival_s);
    } else {
      result_.itl_s.push_back(now_ - live.last_token_s);
    }
    live.last_token_s = now_;
    ++result_.generated_tokens;
    sequence.token_ids.push_back(next_token_ = (next_token_ + 1) & 0x7FFFFFFF);
    if (sequence.num_tokens() < sequence.max_num_tokens) return;
    timed([&] { scheduler_.remove(sequence); });
    live_.erase(&sequence);
  }

  void count_waste(double seconds) {
    double unfilled = 0;
    for (const Sequence* sequence : scheduler_.running()) {
      const auto blocks = static_cast<int64_t>(sequence->block_table.blocks.size());
      unfilled += static_cast<double>(blocks * config_.block_size - sequence->num_tokens());
      running_tokens_ += seconds * static_cast<double>(sequence->num_tokens());
      reserved_tokens_ += seconds * static_cast<double>(longest_);
    }
    unfilled_slots_ += seconds * unfilled;
    used_slots_ += seconds * static_cast<double>(blocks_.num_used_blocks() * config_.block_size);
  }

  const std::vector<cli::TraceRequest>& trace_;
  SimulatorConfig config_;
  BlockManager blocks_;
  Scheduler scheduler_;
  SimulatorResult result_;
  std::unordered_map<const Sequence*, std::unique_ptr<Live>> live_;
  size_t next_ = 0;
  double now_ = 0;
  double step_scheduling_s_ = 0;
  int64_t longest_ = 0;
  TokenId next_token_ = 0;
  // Sums over simulated time.
  double unfilled_slots_ = 0, used_slots_ = 0, running_tokens_ = 0, reserved_tokens_ = 0;
};

}  // namespace

SimulatorResult simulate(const std::vector<cli::TraceRequest>& trace,
                         const SimulatorConfig& config) {
  return Simulator(trace, config).run();
}

double time_steady_step(int64_t num_running, int64_t num_waiting) {
  constexpr int kSteps = 1000;
  constexpr int64_t kPrompt = 1000;
  engine::SchedulerConfig config;
  config.max_num_seqs = num_running;
  config.max_num_batched_tokens = 8192;
  config.max_logit_rows = num_running;
  BlockManager blocks(num_running * (kPrompt + 2 * kSteps) / 16, 16, true);
  Scheduler scheduler(config, blocks);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int64_t i = 0; i < num_running + num_waiting; ++i) {
    sequences.push_back(std::make_unique<Sequence>());
    Sequence& sequence = *sequences.back();
    for (int64_t t = 0; t < kPrompt; ++t) {
      sequence.token_ids.push_back(static_cast<TokenId>(i * 7919 + t));
    }
    sequence.max_num_tokens = kPrompt + 2 * kSteps;
    sequence.first_logit_position = kPrompt - 1;
    scheduler.add(sequence);
  }
  double seconds = 0;
  for (int steps = 0; steps < kSteps;) {
    const bool steady = scheduler.num_running() == num_running &&
                        scheduler.running().back()->num_tokens() > kPrompt;
    const double start = now_seconds();
    const Plan plan = scheduler.schedule();
    const double middle = now_seconds();
    for (const ScheduledSlice& slice : plan.slices) {
      slice.sequence->num_computed_tokens += slice.num_tokens;
    }
    const double resumed = now_seconds();
    scheduler.complete(plan);
    const double end = now_seconds();
    for (const ScheduledSlice& slice : plan.slices) {
      if (slice.sequence->num_pending_tokens() == 0) slice.sequence->token_ids.push_back(steps);
    }
    if (!steady) continue;
    seconds += middle - start + end - resumed;
    ++steps;
  }
  for (const auto& sequence : sequences) scheduler.remove(*sequence);
  return seconds / kSteps;
}

}  // namespace octavo::bench
