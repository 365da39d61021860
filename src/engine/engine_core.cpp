#include "engine/engine_core.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "engine/choose_rope.h"
#include "engine/logprobs.h"
#include "engine/request_check.h"

namespace octavo::engine {
namespace {

// The scheduler knows sequences only; all that this engine gives it are completions.
Completion& completion_of(const ScheduledSlice& slice) {
  return static_cast<Completion&>(*slice.sequence);
}

// Whether it is the first of its request that runs: counts requests by their sequences.
bool leads_running(const Completion& completion) {
  for (const auto& other : completion.request().completions) {
    if (other->state == SequenceState::kRunning) return other.get() == &completion;
  }
  return false;
}

}  // namespace

EngineCore::EngineCore(const EngineCoreConfig& config, Executor& executor,
                       const Tokenizer* tokenizer, std::function<double()> clock,
                       std::unique_ptr<Speculator> speculator)
    : config_(config),
      executor_(executor),
      tokenizer_(tokenizer),
      grammars_(std::make_unique<grammar::GrammarCache>(tokenizer)),
      clock_(std::move(clock)),
      blocks_(config.num_blocks, config.block_size, config.enable_prefix_caching, config.groups),
      scheduler_(config.scheduler, blocks_),
      speculator_(std::move(speculator)) {}

// --- requests come and go -----------------------------------------------------------------------

Result<std::unique_ptr<ActiveRequest>> EngineCore::prepare(RequestId id, EngineRequest request,
                                                           RequestOutputSink sink) const {
  const SamplingParams& params = request.sampling;
  OCTAVO_TRY(validate_sampling(params));
  OCTAVO_TRY(check_prompt(request.prompt_token_ids, config_.vocab_size, config_.max_model_len));
  if (request.n < 1)
    return invalid_argument(format("n is {}, which must be at least 1", request.n));
  if (request.pooling) OCTAVO_TRY(check_pooling(request));
  if (request.timeout_s && !(*request.timeout_s > 0 && std::isfinite(*request.timeout_s))) {
    return invalid_argument(format("timeout_s is {}, which must be above 0", *request.timeout_s));
  }
  if (sink == nullptr) return invalid_argument("the request has no sink for its output");
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  int64_t max_tokens = 0;
  if (!request.pooling) {
    const int64_t room = OCTAVO_TRY(room_for_answer(num_prompt_tokens, config_.max_model_len));
    max_tokens = std::min(params.max_tokens.value_or(room), room);
  }
  OCTAVO_TRY(scheduler_.check_fits(request.n, num_prompt_tokens + max_tokens));
  std::string prompt_text;
  if (request.echo) {
    if (tokenizer_ == nullptr) return invalid_argument("echo needs a model with a vocabulary");
    prompt_text =
        OCTAVO_TRY(tokenizer_->decode(request.prompt_token_ids, request.show_special_tokens));
  }

  auto active = std::make_unique<ActiveRequest>();
  active->id = id;
  active->request = std::move(request);
  add_stop_ids(active->request.sampling, config_.stop_ids);
  active->sink = std::move(sink);
  auto processor =
      OCTAVO_TRY(LogitsProcessor::create(active->request, tokenizer_, config_.vocab_size));
  if (const auto& outputs = active->request.sampling.structured_outputs) {
    processor.constrain(OCTAVO_TRY(grammars_->matcher(*outputs)));
  }
  for (int32_t i = 0; i < active->request.n; ++i) {
    active->completions.push_back(
        std::make_unique<Completion>(*active, i, processor, tokenizer_, max_tokens));
    active->completions.back()->echo(prompt_text);
    choose_rope(*active->completions.back(), config_.rope);
  }
  active->completions[0]->num_forks = active->request.n - 1;
  return active;
}

void EngineCore::add(std::unique_ptr<ActiveRequest> request) {
  ++totals_.num_submitted;
  num_prompt_tokens_ += request->num_prompt_tokens();
  if (request->deadline) deadlines_.emplace(*request->deadline, request->id);
  scheduler_.add(*request->completions[0]);
  const RequestId id = request->id;
  const bool wanted = !request->request.cancel.stop_requested();
  requests_.emplace(id, std::move(request));
  if (!wanted) end(id, cancelled("the request was cancelled"));
}

void EngineCore::remove(ActiveRequest& request) {
  for (const auto& completion : request.completions) stop_running(*completion);
  num_prompt_tokens_ -= request.num_prompt_tokens();
  if (request.deadline) deadlines_.erase({*request.deadline, request.id});
  requests_.erase(request.id);  // the end of `request`
}

void EngineCore::end(RequestId id, Status why) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  ActiveRequest& request = *found->second;
  if (request.finished()) why = {};  // it only was not delivered yet
  for (const auto& completion : request.completions) {
    if (!completion->finished()) completion->abort();
  }
  switch (why.code()) {
    case StatusCode::kOk:
      ++totals_.num_finished;
      break;
    case StatusCode::kCancelled:
      ++totals_.num_cancelled;
      break;
    case StatusCode::kDeadlineExceeded:
      ++totals_.num_timed_out;
      break;
    default:
      ++totals_.num_failed;
  }
  emit(request, true, std::move(why));
  remove(request);
}

void EngineCore::end_all(const Status& why) {
  while (!requests_.empty()) end(requests_.begin()->first, why);
}

void EngineCore::end_expired() {
  const double now = clock_();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const RequestId id = deadlines_.begin()->second;
    end(id, deadline_exceeded(format("the request did not end within {} s",
                                     *requests_.at(id)->request.timeout_s)));
  }
}

void EngineCore::end_cancelled() {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) {
    if (request->request.cancel.stop_requested()) ids.push_back(id);
  }
  for (const RequestId id : ids) end(id, cancelled("the request was cancelled"));
}

// --- a step -------------------------------------------------------------------------------------

bool EngineCore::step() {
  const double begin = clock_();
  const bool ran = run_step();
  totals_.step_s += clock_() - begin;
  return ran;
}

bool EngineCore::run_step() {
  if (speculator_ != nullptr) speculator_->draft(scheduler_.running());
  Plan plan = scheduler_.schedule();
  if (plan.slices.empty()) {
    if (deliver()) return true;
    // Never so by design; a request that waits for ever would be worse than one that fails.
    if (has_requests()) end_all(internal_error("the scheduler found nothing to run"));
    return false;
  }
  add_draws(plan);
  note_start(plan);
  const double begin = clock_();
  const Result<StepOutput> output = execute(plan);
  totals_.forward_s += clock_() - begin;
  ++totals_.num_steps;
  if (!output.ok()) {
    fail_step(plan, output.status());
    return true;
  }
  num_failed_steps_ = 0;
  scheduler_.complete(plan);
  take_results(plan, *output);
  end_failed();
  if (!executor_.is_async()) deliver();
  return true;
}

// The backends' own faults come as exceptions; here they become values.
Result<StepOutput> EngineCore::execute(const Plan& plan) {
  try {
    OCTAVO_TRY(executor_.execute_async(plan));
    if (executor_.is_async()) deliver();  // of the step before
    const StepOutput output = OCTAVO_TRY(executor_.wait());
    OCTAVO_CHECK(output.logits.rows == plan.num_logit_rows);
    OCTAVO_CHECK(output.hidden.rows == plan.num_hidden_rows);
    return output;
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}

// Of a slice that reaches the end of its sequence's tokens, the row after the last one and those
// after drafts are to draw from.
void EngineCore::add_draws(Plan& plan) {
  for (const ScheduledSlice& slice : plan.slices) {
    plan.draws.resize(plan.draws.size() + static_cast<size_t>(slice.num_logit_rows));
    if (slice.num_logit_rows == 0 ||
        slice.num_known_tokens() < slice.sequence->num_pending_tokens()) {
      continue;
    }
    completion_of(slice).next_draws(
        std::span(plan.draws).last(static_cast<size_t>(1 + slice.num_draft_tokens)));
  }
}

void EngineCore::note_start(const Plan& plan) {
  const double now = clock_();
  for (const ScheduledSlice& slice : plan.slices) {
    ActiveRequest& request = completion_of(slice).request();
    if (request.first_step) continue;
    request.first_step = now;
    totals_.prompt_tokens += request.num_prompt_tokens();
  }
}

// What the step wrote is in blocks of its own sequences, and unknown to the prefix cache: others
// may go on.
void EngineCore::fail_step(const Plan& plan, const Status& status) {
  ++num_failed_steps_;
  last_failure_ = status;
  log_warning("a step failed: {}", status.message());
  std::set<RequestId> ids;
  for (const ScheduledSlice& slice : plan.slices) ids.insert(completion_of(slice).request().id);
  for (const RequestId id : ids) end(id, {status.code(), "the step failed: " + status.message()});
}

void EngineCore::take_results(const Plan& plan, const StepOutput& output) {
  int64_t logit_row = 0;
  int64_t hidden_row = 0;
  for (const ScheduledSlice& slice : plan.slices) {
    Completion& completion = completion_of(slice);
    if (slice.num_logit_rows > 0) {
      take_rows(slice, output, logit_row);
    } else if (slice.num_hidden_rows > 0) {
      const Status status =
          pool(completion, output.hidden.row_range(hidden_row, slice.num_hidden_rows));
      if (!status.ok()) failed_.emplace_back(completion.request().id, status);
    }
    logit_row += slice.num_logit_rows;
    hidden_row += slice.num_hidden_rows;
  }
  draw_tokens();
}

Status EngineCore::pool(Completion& completion, const ops::Mat& rows) {
  OCTAVO_TRY(completion.pool(rows));
  if (!completion.finished()) return {};
  ActiveRequest& request = completion.request();
  request.first_token = request.last_token = clock_();
  note_news(request);
  stop_running(completion);
  return {};
}

void EngineCore::note_news(ActiveRequest& request) {
  if (!std::exchange(request.has_news, true)) news_.push_back(request.id);
}

// Rows from `begin` on, of the last tokens that the slice computed: of the prompt, for its
// logprobs, and those to draw from.
void EngineCore::take_rows(const ScheduledSlice& slice, const StepOutput& output, int64_t begin) {
  Completion& completion = completion_of(slice);
  ActiveRequest& request = completion.request();
  const int64_t end = begin + slice.num_logit_rows;
  const bool draws = completion.num_pending_tokens() == 0;
  const int64_t draw_begin = draws ? end - slice.num_draft_tokens - 1 : end;
  OCTAVO_CHECK(slice.num_draft_tokens == 0 || draw_begin == begin);
  for (int64_t row = begin; row < draw_begin; ++row) {
    const std::span<const float> logits(output.logits.row<float>(row),
                                        static_cast<size_t>(output.logits.cols));
    const int64_t next = completion.num_computed_tokens + row + 1 - end;
    request.prompt_logprobs.push_back(token_logprobs(logits, completion.token_ids[next],
                                                     *request.request.sampling.prompt_logprobs));
  }
  if (!draws) return;
  Draw draw{&completion, output.logits.row_range(draw_begin, end - draw_begin), {}, {}};
  if (!output.tokens.empty()) {
    draw.tokens = output.tokens.subspan(static_cast<size_t>(draw_begin),
                                        static_cast<size_t>(end - draw_begin));
  }
  begin_draws(draw);
}

// At the prompt's end the other answers begin, from the same logits.
void EngineCore::begin_draws(const Draw& draw) {
  draws_.push_back(draw);
  Completion& leader = *draw.completion;
  for (size_t i = 1; leader.num_forks > 0; ++i) {
    Completion& child = *leader.request().completions[i];
    child.first_logit_position = leader.first_logit_position;
    scheduler_.fork(leader, child);
    draws_.push_back({&child, draw.logits, {}, {}});
  }
}

// Choosing goes over a vocabulary for each token and is spread over the threads; what follows is
// little, and in the plan's order.
void EngineCore::draw_tokens() {
  ThreadPool* pool = executor_.pool();
  const auto count = static_cast<int64_t>(draws_.size());
  scratch_.resize(pool == nullptr ? 1 : pool->num_threads());
  const auto num_open = std::count_if(draws_.begin(), draws_.end(),
                                      [](const Draw& draw) { return draw.needs_logits(); });
  auto take = [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) draws_[i].take_tokens(scratch_[thread]);
  };
  if (pool == nullptr || num_open < 2) {
    take(0, count, 0);
  } else {
    pool->parallel_for(count, 1, take);
  }
  const double now = clock_();
  for (const Draw& draw : std::exchange(draws_, {})) note_tokens(draw, now);
}

void EngineCore::note_tokens(const Draw& draw, double now) {
  Completion& completion = *draw.completion;
  ActiveRequest& request = completion.request();
  request.last_token = now;
  if (!request.first_token) request.first_token = now;
  note_news(request);
  totals_.generation_tokens += draw.num_taken;
  if (const int64_t num_drafts = draw.logits.rows - 1; num_drafts > 0) {
    const int64_t num_accepted = std::max<int64_t>(0, draw.num_taken - 1);
    scheduler_.accept_drafts(completion, num_accepted);
    speculator_->observe(completion, num_drafts, num_accepted);
  }
  if (!draw.status.ok()) {
    failed_.emplace_back(request.id, draw.status);
  } else if (completion.finished()) {
    stop_running(completion);
  }
}

void EngineCore::stop_running(Completion& completion) {
  scheduler_.remove(completion);
  if (speculator_ != nullptr) speculator_->forget(completion);
}

// Before the next step, which must not compute them.
void EngineCore::end_failed() {
  for (const auto& [id, status] : std::exchange(failed_, {})) end(id, status);
}

bool EngineCore::deliver() {
  bool any = false;
  for (const RequestId id : std::exchange(news_, {})) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;  // it ended otherwise
    any = true;
    ActiveRequest& request = *found->second;
    request.has_news = false;
    if (request.finished()) {
      end(id, {});
    } else if (request.request.output_kind != OutputKind::kFinalOnly) {
      emit(request, false, {});
    }
  }
  return any;
}

void EngineCore::emit(ActiveRequest& request, bool last, Status status) {
  const RequestOutput output = request.make_output(last, std::move(status));
  try {
    request.sink(output);
  } catch (const std::exception& error) {
    log_warning("the sink of request {} threw: {}", request.id, error.what());
  }
}

bool EngineCore::reset_prefix_cache() {
  if (!blocks_.reset_prefix_cache()) return false;
  if (speculator_ != nullptr) speculator_->reset_prefix_cache();
  return true;
}

// --- for others to look at ----------------------------------------------------------------------

std::optional<double> EngineCore::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

EngineStats EngineCore::stats() const {
  EngineStats stats = totals_;
  stats.num_requests_waiting = static_cast<int64_t>(requests_.size());
  stats.num_tokens_waiting = num_prompt_tokens_;
  for (const Sequence* sequence : scheduler_.running()) {
    const auto& completion = static_cast<const Completion&>(*sequence);
    if (!leads_running(completion)) continue;
    ++stats.num_requests_running;
    --stats.num_requests_waiting;
    stats.num_tokens_waiting -= completion.request().num_prompt_tokens();
  }
  for (const RequestId id : news_) {  // those that ended, until they are told so
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second->finished()) continue;
    ++stats.num_requests_running;
    --stats.num_requests_waiting;
    stats.num_tokens_waiting -= found->second->num_prompt_tokens();
  }
  stats.num_blocks = blocks_.num_blocks();
  stats.num_used_blocks = blocks_.num_used_blocks();
  stats.num_cached_blocks = blocks_.num_cached_blocks();
  stats.num_free_blocks = blocks_.num_free_blocks();
  stats.prefix_cache_queries = scheduler_.totals().prefix_cache_queries;
  stats.prefix_cache_hits = scheduler_.totals().prefix_cache_hits;
  stats.num_preemptions = scheduler_.totals().preemptions;
  if (speculator_ != nullptr) speculator_->add_to(stats);
  return stats;
}

Result<std::vector<PageTableRow>> EngineCore::page_table(RequestId id, int32_t index) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return not_found(format("there is no request {}", id));
  const auto& completions = found->second->completions;
  if (index < 0 || index >= static_cast<int32_t>(completions.size())) {
    return invalid_argument(
        format("index is {}, but request {} has {} answers", index, id, completions.size()));
  }
  return blocks_.page_table(completions[index]->block_table);
}

bool EngineCore::check_integrity() const {
  std::vector<const BlockTable*> tables;
  for (const auto& [id, request] : requests_) {
    for (const auto& completion : request->completions) {
      tables.push_back(&completion->block_table);
      const bool holds = !completion->block_table.blocks.empty();
      if (holds != (completion->state == SequenceState::kRunning)) return false;
    }
  }
  return blocks_.check_integrity(tables);
}

}  // namespace octavo::engine
