// EngineCore: requests in, events out, one step at a time. It has no thread and no lock; whoever
// calls it does so from one thread at a time (prepare() excepted).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/completion.h"
#include "engine/draw.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/speculator.h"
#include "grammar/grammar_cache.h"
#include "model/rope.h"

namespace octavo::engine {

struct EngineCoreConfig {
  SchedulerConfig scheduler;
  int64_t num_blocks = 0;
  int64_t block_size = 16;
  bool enable_prefix_caching = true;
  std::vector<AttentionSpan> groups = {AttentionSpan()};  // as BlockManager takes them
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;
  model::RopeParameters rope;     // whose frequencies may depend on a sequence's length
  std::vector<TokenId> stop_ids;  // of a model without a tokenizer
};

class EngineCore {
 public:
  // `tokenizer` may be null. `clock` gives seconds; monotonic. Without a `speculator` each step
  // gives a sequence one token.
  EngineCore(const EngineCoreConfig& config, Executor& executor, const Tokenizer* tokenizer,
             std::function<double()> clock, std::unique_ptr<Speculator> speculator = nullptr);

  // Checks a request as far as it can be without running. May be called from any thread.
  Result<std::unique_ptr<ActiveRequest>> prepare(RequestId id, EngineRequest request,
                                                 RequestOutputSink sink) const;

  // From here on the request ends with exactly one event that is `finished`.
  void add(std::unique_ptr<ActiveRequest> request);

  // Ends a request with `why`, if it has not ended yet. Its answers keep what they have.
  void end(RequestId id, Status why);
  void end_all(const Status& why);
  void end_expired();
  void end_cancelled();  // those whose Request::cancel says so

  // Schedules and computes one step and delivers what it brought: at once, or, of an executor that
  // is asynchronous, while the next step is computed. False where there was nothing to do. A
  // failure to compute ends the requests of the step, not the engine.
  bool step();

  // Delivers what the last step brought, where no step comes next. False where there was nothing.
  bool deliver();
  bool has_news() const { return !news_.empty(); }

  // After this many steps in a row that failed it makes no sense to go on.
  bool broken() const { return num_failed_steps_ >= 3; }
  const Status& last_failure() const { return last_failure_; }

  bool has_requests() const { return !requests_.empty(); }
  std::optional<double> next_deadline() const;
  EngineStats stats() const;
  bool reset_prefix_cache();
  Result<std::vector<PageTableRow>> page_table(RequestId id, int32_t index) const;

  // The books of the KV cache agree with the sequences; nothing is held for nobody.
  bool check_integrity() const;

 private:
  bool run_step();
  Result<StepOutput> execute(const Plan& plan);
  static void add_draws(Plan& plan);
  void note_start(const Plan& plan);
  void fail_step(const Plan& plan, const Status& status);
  void take_results(const Plan& plan, const StepOutput& output);
  Status pool(Completion& completion, const ops::Mat& rows);
  void note_news(ActiveRequest& request);
  void take_rows(const ScheduledSlice& slice, const StepOutput& output, int64_t begin);
  void begin_draws(const Draw& draw);
  void draw_tokens();
  void note_tokens(const Draw& draw, double now);
  void stop_running(Completion& completion);
  void end_failed();
  void emit(ActiveRequest& request, bool last, Status status);
  void remove(ActiveRequest& request);

  EngineCoreConfig config_;
  Executor& executor_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<grammar::GrammarCache> grammars_;  // safe from any thread
  std::function<double()> clock_;
  BlockManager blocks_;
  Scheduler scheduler_;
  std::unique_ptr<Speculator> speculator_;
  std::map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  int64_t num_prompt_tokens_ = 0;  // of all of these
  std::set<std::pair<double, RequestId>> deadlines_;
  std::vector<RequestId> news_;                       // requests with something to deliver
  std::vector<std::pair<RequestId, Status>> failed_;  // in this step
  std::vector<Draw> draws_;                           // of this step
  std::vector<SamplerScratch> scratch_;               // for each thread
  int num_failed_steps_ = 0;                          // in a row
  Status last_failure_;
  EngineStats totals_;  // only what adds up
};

}  // namespace octavo::engine
