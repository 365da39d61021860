#include "support/engine_schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "engine/engine_core.h"
#include "engine/loaded_model.h"
#include "engine/ngram_drafter.h"
#include "support/letter_tokenizer.h"
#include "support/test_drafters.h"

namespace octavo::testing {
namespace {

using engine::Completion;
using engine::EngineCore;
using engine::EngineCoreConfig;
using engine::ModelRunner;
using engine::Plan;

// Logits by position of the sequence.
using Rows = std::map<int64_t, std::vector<float>>;

// What one answer of a request gives alone.
struct Expected {
  CompletionOutput output;
  std::vector<TokenLogprobs> prompt_logprobs;
  Rows rows;
};

struct Case {
  EngineRequest request;
  std::vector<Expected> answers;  // [n]
};

class RecordingExecutor : public engine::Executor {
 public:
  using OnRow = std::function<void(const Completion&, int64_t position, std::span<const float>)>;
  // With `draws` every second step may draw tokens on the device; rows of these are not seen.
  RecordingExecutor(ModelRunner& runner, bool draws, OnRow on_row)
      : runner_(runner), draws_(draws), on_row_(std::move(on_row)) {}

  Status execute_async(const Plan& plan) override {
    plan_ = plan;
    if (!draws_ || num_steps_++ % 2 == 0) plan_.draws.clear();
    return runner_.execute_async(plan_);
  }
  bool is_async() const override { return runner_.is_async(); }
  Result<engine::StepOutput> wait() override {
    auto output = runner_.wait();
    if (!output.ok()) return output;
    const ops::Mat& logits = output->logits;
    int64_t row = 0;
    for (const engine::ScheduledSlice& slice : plan_.slices) {
      const auto& completion = static_cast<const Completion&>(*slice.sequence);
      const int64_t end = completion.num_computed_tokens + slice.num_draft_tokens;
      for (int64_t i = slice.num_logit_rows; i > 0; --i, ++row) {
        if (output->token(row) >= 0) continue;
        on_row_(completion, end - i, {logits.row<float>(row), static_cast<size_t>(logits.cols)});
      }
    }
    return output;
  }

 private:
  ModelRunner& runner_;
  bool draws_;
  OnRow on_row_;
  Plan plan_;
  int64_t num_steps_ = 0;
};

// Puts a request's events together again, and checks their order.
struct Collector {
  EngineRequest request;
  std::vector<CompletionOutput> answers;
  std::vector<TokenLogprobs> prompt_logprobs;
  int num_last_events = 0;
  Status status;
  Usage usage;

  explicit Collector(const EngineRequest& r) : request(r), answers(r.n) {}

  void take(const RequestOutput& event) {
    EXPECT_EQ(num_last_events, 0) << "an event after the last one";
    if (request.output_kind == OutputKind::kFinalOnly) {
      EXPECT_TRUE(event.finished);
    }
    for (const CompletionOutput& output : event.outputs) {
      CompletionOutput& answer = answers.at(output.index);
      if (request.output_kind == OutputKind::kDelta) {
        answer.text += output.text;
        answer.token_ids.insert(answer.token_ids.end(), output.token_ids.begin(),
                                output.token_ids.end());
        answer.logprobs.insert(answer.logprobs.end(), output.logprobs.begin(),
                               output.logprobs.end());
        EXPECT_FALSE(answer.finish_reason.has_value());
        answer.finish_reason = output.finish_reason;
        answer.stop_reason = output.stop_reason;
      } else {
        EXPECT_EQ(output.text.substr(0, answer.text.size()), answer.text);
        EXPECT_GE(output.token_ids.size(), answer.token_ids.size());
        answer = output;
      }
    }
    if (!event.prompt_logprobs.empty()) prompt_logprobs = event.prompt_logprobs;
    if (!event.finished) return;
    ++num_last_events;
    status = event.status;
    usage = event.usage;
  }
};

bool same_logprobs(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  const auto same = [](const Logprob& x, const Logprob& y) {
    return x.token_id == y.token_id && x.logprob == y.logprob && x.rank == y.rank;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return same(x.token, y.token) &&
           std::equal(x.top.begin(), x.top.end(), y.top.begin(), y.top.end(), same);
  });
}

class Harness {
 public:
  explicit Harness(const ScheduleOptions& options) : options_(options) {
    const auto model = load(16);
    vocab_size_ = model->model().config().vocab_size;
    tokenizer_ = std::make_unique<LetterTokenizer>(vocab_size_);
    const int64_t longest =
        std::max(options.long_prompt_tokens, options.max_prompt_tokens) + options.max_answer_tokens;
    max_model_len_ = std::min(longest, model->max_model_len());
    for (const int64_t block_size : options.block_sizes) runners_.push_back(load(block_size));
    draft_runner_ = load(options.block_sizes.back());
  }

  void run() {
    for (int64_t i = 0; i < options_.num_schedules; ++i) {
      const uint64_t seed = options_.first_seed + static_cast<uint64_t>(i);
      if (i % options_.schedules_per_pool == 0) make_pool(seed);
      run_schedule(seed);
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "schedule with seed " << seed;
        return;
      }
    }
    EXPECT_GT(num_preemptions_, 0);
    EXPECT_GT(num_cached_tokens_, 0);
    EXPECT_EQ(num_given_back_ > 0, options_.gives_back);
    EXPECT_GT(num_accepted_, 0);
    EXPECT_LT(num_accepted_, num_drafted_);
  }

 private:
  std::unique_ptr<ModelRunner> load(int64_t block_size) {
    LoadOptions load_options;
    load_options.threads = 1;
    load_options.backend = options_.backend;
    load_options.attn_implementation = options_.attn_implementation;
    load_options.kv_cache_dtype = options_.kv_cache_dtype;
    engine::RunnerLimits limits;
    limits.block_size = block_size;
    auto model = engine::load_model(options_.model_path, load_options, limits);
    EXPECT_TRUE(model.ok()) << model.status().message();
    const int64_t num_pages = 4096 / block_size + 1;
    const int64_t num_groups = model->runner->kv_groups().num_groups();
    EXPECT_TRUE(model->runner->resize_kv_cache(num_groups * num_pages).ok());
    return std::move(model->runner);
  }

  static int64_t below(Rng& rng, int64_t n) { return static_cast<int64_t>(rng.next_u64() % n); }
  static bool one_in(Rng& rng, int64_t n) { return below(rng, n) == 0; }

  // --- requests ---

  void make_pool(uint64_t seed) {
    Rng rng(seed * 7919 + 1);
    pool_.clear();
    // Prompts share beginnings, so that the prefix cache has something to find.
    std::vector<std::vector<TokenId>> stems(3);
    for (auto& stem : stems) {
      for (int64_t i = 0; i < options_.long_prompt_tokens; ++i) {
        stem.push_back(static_cast<TokenId>(below(rng, vocab_size_)));
      }
    }
    for (int64_t i = 0; i < options_.requests_per_pool; ++i) {
      const int64_t length =
          i == 0 ? options_.long_prompt_tokens : 1 + below(rng, options_.max_prompt_tokens);
      pool_.push_back(make_case(rng, stems[below(rng, 3)], length));
    }
  }

  Case make_case(Rng& rng, const std::vector<TokenId>& stem, int64_t length) {
    Case made;
    EngineRequest& request = made.request;
    request.prompt_token_ids.assign(stem.begin(), stem.begin() + length);
    if (one_in(rng, 2)) {
      for (int64_t i = below(rng, length); i < length; ++i) {
        request.prompt_token_ids[i] = static_cast<TokenId>(below(rng, vocab_size_));
      }
    }
    request.n = one_in(rng, 3) ? 1 + static_cast<int32_t>(below(rng, 3)) : 1;
    request.echo = one_in(rng, 6);
    request.output_kind = static_cast<OutputKind>(below(rng, 3));
    request.priority = static_cast<int32_t>(below(rng, 3));
    if (one_in(rng, 4)) request.cache_salt = "salt";
    SamplingParams& params = request.sampling;
    params.max_tokens = 1 + below(rng, options_.max_answer_tokens);
    params.temperature = one_in(rng, 2) ? 0.0f : 1.5f;
    params.seed = rng.next_u64();
    if (one_in(rng, 3)) params.top_k = 20;
    if (one_in(rng, 3)) params.top_p = 0.9f;
    if (one_in(rng, 3)) params.repetition_penalty = 1.3f;
    if (one_in(rng, 4)) params.frequency_penalty = 0.5f;
    if (one_in(rng, 3)) params.stop = {"ab", "bca"};
    if (one_in(rng, 3)) params.min_tokens = below(rng, *params.max_tokens + 1);
    params.ignore_eos = one_in(rng, 3);
    if (one_in(rng, 3)) params.logprobs = static_cast<int32_t>(below(rng, 4));
    if (one_in(rng, 5)) params.prompt_logprobs = static_cast<int32_t>(below(rng, 3));
    for (int32_t i = 0; i < request.n; ++i) made.answers.push_back(compute_alone(request, i));
    return made;
  }

  Expected compute_alone(EngineRequest request, int32_t index) {
    *request.sampling.seed += static_cast<uint64_t>(index);
    request.n = 1;
    request.output_kind = OutputKind::kFinalOnly;
    Expected expected;
    RecordingExecutor executor(*runners_.back(), false,
                               [&](const Completion&, int64_t position, auto logits) {
                                 expected.rows[position].assign(logits.begin(), logits.end());
                               });
    EngineCoreConfig config = core_config(*runners_.back());
    config.num_blocks = runners_.back()->num_kv_blocks();
    for (engine::AttentionSpan& span : config.groups) span = {};  // nothing is given back
    config.enable_prefix_caching = false;
    EngineCore core(config, executor, tokenizer_.get(), [] { return 0.0; });
    auto active = core.prepare(1, std::move(request), [&](const RequestOutput& event) {
      EXPECT_TRUE(event.status.ok()) << event.status.message();
      expected.output = event.outputs.at(0);
      expected.prompt_logprobs = event.prompt_logprobs;
    });
    EXPECT_TRUE(active.ok()) << active.status().message();
    core.add(std::move(*active));
    while (core.step()) {
    }
    return expected;
  }

  EngineCoreConfig core_config(const ModelRunner& runner) const {
    EngineCoreConfig config;
    config.scheduler.max_num_batched_tokens = runner.limits().max_num_batched_tokens;
    config.scheduler.max_num_seqs = 64;
    config.scheduler.max_logit_rows = runner.limits().max_logit_rows;
    config.block_size = runner.limits().block_size;
    config.groups = runner.kv_groups().spans;
    config.max_model_len = max_model_len_;
    config.vocab_size = vocab_size_;
    return config;
  }

  // --- schedules ---

  EngineCoreConfig random_config(Rng& rng, const ModelRunner& runner,
                                 const std::vector<const Case*>& cases) const {
    EngineCoreConfig config = core_config(runner);
    config.scheduler.max_num_seqs = 3 + below(rng, 8);
    config.scheduler.max_num_batched_tokens = config.scheduler.max_num_seqs + below(rng, 80);
    config.scheduler.max_logit_rows = config.scheduler.max_num_seqs + 1 + below(rng, 20);
    config.scheduler.long_prefill_token_threshold = one_in(rng, 4) ? 1 + below(rng, 30) : 0;
    config.scheduler.scheduling_policy =
        one_in(rng, 2) ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
    config.scheduler.watermark = one_in(rng, 2) ? 0.0 : 0.05;
    config.scheduler.admission_factor = one_in(rng, 2) ? 1.0 : 1.2;
    config.enable_prefix_caching = !one_in(rng, 4);
    for (const Case* chosen : cases) {
      const auto tokens = static_cast<int64_t>(chosen->request.prompt_token_ids.size()) +
                          *chosen->request.sampling.max_tokens;
      config.num_blocks =
          std::max(config.num_blocks,
                   model::peak_blocks(config.groups, tokens,
                                      config.scheduler.max_num_batched_tokens, config.block_size));
    }
    config.num_blocks += below(rng, 1 + options_.max_spare_tokens / config.block_size);
    return config;
  }

  void run_schedule(uint64_t seed) {
    Rng rng(seed);
    std::vector<const Case*> cases(2 + below(rng, 6));
    for (const Case*& chosen : cases) {
      chosen = &pool_[below(rng, static_cast<int64_t>(pool_.size()))];
    }
    ModelRunner& runner = *runners_[below(rng, static_cast<int64_t>(runners_.size()))];
    const EngineCoreConfig config = random_config(rng, runner, cases);
    RecordingExecutor executor(
        runner, true,
        [&](const Completion& completion, int64_t position, std::span<const float> row) {
          const Expected& expected = answer_of(cases, completion);
          if (drafts_are_right(completion, expected, position)) {
            expect_same_row(expected, position, row);
          }
        });
    EngineCore core(
        config, executor, tokenizer_.get(), [] { return 0.0; }, random_speculator(rng, cases));
    std::vector<std::unique_ptr<Collector>> collectors;
    const int64_t cancel_one_in = one_in(rng, 3) ? 6 : 1000;
    for (int64_t step = 0; collectors.size() < cases.size() || core.has_requests(); ++step) {
      ASSERT_LT(step, 20000) << "the schedule does not end";
      while (collectors.size() < cases.size() && one_in(rng, 3)) {
        const RequestId id = collectors.size();
        auto collector = std::make_unique<Collector>(cases[id]->request);
        auto active = core.prepare(id, cases[id]->request,
                                   [raw = collector.get()](const auto& e) { raw->take(e); });
        ASSERT_TRUE(active.ok()) << active.status().message();
        core.add(std::move(*active));
        collectors.push_back(std::move(collector));
      }
      if (!collectors.empty() && one_in(rng, cancel_one_in)) {
        core.end(below(rng, static_cast<int64_t>(collectors.size())), cancelled("for the test"));
      }
      core.step();
      ASSERT_TRUE(core.check_integrity());
      if (core.has_requests()) count_given_back(core, collectors.size());
    }
    for (size_t i = 0; i < cases.size(); ++i) expect_same_answers(*cases[i], *collectors[i]);
    const EngineStats stats = core.stats();
    EXPECT_EQ(stats.num_used_blocks, 0);
    EXPECT_EQ(stats.num_cached_blocks + stats.num_free_blocks, stats.num_blocks);
    EXPECT_EQ(stats.num_submitted, static_cast<int64_t>(cases.size()));
    EXPECT_EQ(stats.num_finished + stats.num_cancelled, stats.num_submitted);
    num_preemptions_ += stats.num_preemptions;
    num_cached_tokens_ += stats.prefix_cache_hits;
    num_drafted_ += stats.spec_decode_num_draft_tokens;
    num_accepted_ += stats.spec_decode_num_accepted_tokens;
  }

  static const Expected& answer_of(const std::vector<const Case*>& cases,
                                   const Completion& completion) {
    return cases[completion.request().id]->answers[completion.output().index];
  }

  // Whether what stands before the row at `position` is the answer's beginning.
  static bool drafts_are_right(const Completion& completion, const Expected& expected,
                               int64_t position) {
    const std::vector<TokenId>& answer = expected.output.token_ids;
    const int64_t num_before = position + 1 - completion.request().num_prompt_tokens();
    if (num_before >= static_cast<int64_t>(answer.size())) return false;
    for (int64_t i = completion.num_generated_tokens(); i < num_before; ++i) {
      const int64_t draft = i - completion.num_generated_tokens();
      if (completion.draft_token_ids[draft] != answer[i]) return false;
    }
    return true;
  }

  // Of the model itself, with room for some or for all.
  engine::ModelDrafterConfig random_draft_config(Rng& rng) const {
    engine::ModelDrafterConfig config;
    config.block_size = draft_runner_->limits().block_size;
    config.groups = draft_runner_->kv_groups().spans;
    config.num_blocks = std::min(draft_runner_->num_kv_blocks(),
                                 draft_runner_->kv_groups().num_groups() * (4 + below(rng, 50)));
    config.enable_prefix_caching = !one_in(rng, 3);
    config.max_num_batched_tokens = 16 + below(rng, 100);
    config.max_logit_rows = 1 + below(rng, 16);
    config.max_model_len = max_model_len_;
    config.vocab_size = config.target_vocab_size = vocab_size_;
    return config;
  }

  std::unique_ptr<engine::Speculator> random_speculator(
      Rng& rng, const std::vector<const Case*>& cases) const {
    if (one_in(rng, 4)) return nullptr;
    engine::SpeculatorConfig config;
    config.num_speculative_tokens = 1 + below(rng, 6);
    config.row_cost = one_in(rng, 2) ? 0.0 : 0.1;
    const auto answer = [cases](const Completion& completion) -> const std::vector<TokenId>& {
      return answer_of(cases, completion).output.token_ids;
    };
    std::unique_ptr<engine::Drafter> drafter;
    const int64_t kind = below(rng, 4);
    if (kind == 0) {
      const int64_t least = 1 + below(rng, 2);
      drafter = std::make_unique<engine::NgramDrafter>(least, least + below(rng, 3));
    } else if (kind == 1) {
      drafter =
          std::make_unique<CheckedModelDrafter>(random_draft_config(rng), *draft_runner_, answer);
    } else {
      drafter = std::make_unique<FallibleOracle>(rng.next_u64(), vocab_size_, answer);
    }
    return std::make_unique<engine::Speculator>(config, std::move(drafter));
  }

  void count_given_back(const EngineCore& core, size_t num_requests) {
    for (RequestId id = 0; id < num_requests; ++id) {
      const auto table = core.page_table(id, 0);
      if (!table.ok()) continue;
      for (const PageTableRow& row : *table) {
        if (row.page == 0 && row.block < 0) ++num_given_back_;
      }
    }
  }

  static void expect_same_row(const Expected& expected, int64_t position,
                              std::span<const float> row) {
    const auto found = expected.rows.find(position);
    ASSERT_NE(found, expected.rows.end()) << "position " << position;
    ASSERT_EQ(std::memcmp(found->second.data(), row.data(), row.size_bytes()), 0)
        << "logits at position " << position;
  }

  static void expect_same_answers(const Case& asked, const Collector& got) {
    EXPECT_EQ(got.num_last_events, 1);
    for (size_t i = 0; i < got.answers.size(); ++i) {
      const CompletionOutput& expected = asked.answers[i].output;
      const CompletionOutput& answer = got.answers[i];
      ASSERT_TRUE(answer.finish_reason.has_value());
      if (*answer.finish_reason == FinishReason::kAbort) {  // what there is must be a beginning
        EXPECT_EQ(got.status.code(), StatusCode::kCancelled);
        ASSERT_LE(answer.token_ids.size(), expected.token_ids.size());
        EXPECT_TRUE(std::equal(answer.token_ids.begin(), answer.token_ids.end(),
                               expected.token_ids.begin()));
        continue;
      }
      EXPECT_EQ(answer.token_ids, expected.token_ids);
      EXPECT_EQ(answer.text, expected.text);
      EXPECT_EQ(*answer.finish_reason, *expected.finish_reason);
      EXPECT_EQ(answer.stop_reason, expected.stop_reason);
      EXPECT_TRUE(same_logprobs(answer.logprobs, expected.logprobs));
    }
    if (!got.status.ok()) return;
    EXPECT_TRUE(same_logprobs(got.prompt_logprobs, asked.answers[0].prompt_logprobs));
    EXPECT_LT(got.usage.cached_tokens, got.usage.prompt_tokens);
  }

  ScheduleOptions options_;
  int64_t vocab_size_ = 0;
  int64_t max_model_len_ = 0;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  std::vector<std::unique_ptr<ModelRunner>> runners_;  // of several block sizes
  std::unique_ptr<ModelRunner> draft_runner_;
  std::vector<Case> pool_;
  int64_t num_preemptions_ = 0;
  int64_t num_cached_tokens_ = 0;
  int64_t num_drafted_ = 0;
  int64_t num_accepted_ = 0;
  int64_t num_given_back_ = 0;  // sequences and steps where the first block was gone
};

}  // namespace

void run_random_schedules(const ScheduleOptions& options) {
  Harness(options).run();
}

}  // namespace octavo::testing
