// `octavo bench throughput`: how fast the engine answers many requests that come all at once, and
// what of the time is not spent computing.
#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/json.h"
#include "base/percentile.h"
#include "base/rng.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/engine_command.h"
#include "cli/message.h"
#include "cli/progress_bar.h"
#include "cli/trace.h"

namespace octavo::cli {
namespace {

constexpr int64_t kDefaultOutputLen = 128;

struct BenchRequest {
  std::vector<TokenId> prompt;
  int64_t output_len = 0;
};

Status check_throughput(const ServeOptions& options) {
  const ThroughputOptions& bench = options.throughput;
  constexpr int64_t kMost = 1 << 24;
  const struct {
    const char* flag;
    int64_t value;
    int64_t least;
  } numbers[] = {{"--num-prompts", bench.num_prompts, 1},
                 {"--input-len", bench.input_len, 1},
                 {"--output-len", bench.output_len, 0},
                 {"--prefix-len", bench.prefix_len, 0},
                 {"--n", bench.n, 1},
                 {"--seed", bench.seed, 0}};
  for (const auto& number : numbers) {
    if (number.value >= number.least && number.value <= kMost) continue;
    return invalid_argument(format("{} is {}, which must lie in {}..{}", number.flag, number.value,
                                   number.least, kMost));
  }
  const bool is_trace = bench.dataset_name == "trace";
  if (!is_trace && bench.dataset_name != "random") {
    return invalid_argument(
        format("--dataset-name can be random or trace, not '{}'", bench.dataset_name));
  }
  if (is_trace && bench.dataset_path.empty()) {
    return invalid_argument("--dataset-name trace needs --dataset-path");
  }
  if (is_trace && bench.prefix_len > 0) {
    return invalid_argument("--prefix-len is for --dataset-name random: a trace has its own");
  }
  return {};
}

std::vector<BenchRequest> random_requests(const ThroughputOptions& bench, int64_t vocab_size) {
  Rng rng(static_cast<uint64_t>(bench.seed));
  const auto draw = [&] {
    return static_cast<TokenId>(rng.next_u64() % static_cast<uint64_t>(vocab_size));
  };
  std::vector<TokenId> prefix(static_cast<size_t>(bench.prefix_len));
  std::generate(prefix.begin(), prefix.end(), draw);
  std::vector<BenchRequest> requests(static_cast<size_t>(bench.num_prompts));
  for (BenchRequest& request : requests) {
    request.prompt = prefix;
    for (int64_t i = 0; i < bench.input_len; ++i) request.prompt.push_back(draw());
    request.output_len = bench.output_len > 0 ? bench.output_len : kDefaultOutputLen;
  }
  return requests;
}

Result<std::vector<BenchRequest>> trace_requests(const ThroughputOptions& bench,
                                                 int64_t vocab_size) {
  const auto trace = OCTAVO_TRY(read_trace(bench.dataset_path, bench.num_prompts));
  std::vector<BenchRequest> requests;
  for (const TraceRequest& one : trace) {
    BenchRequest request{make_prompt(one, static_cast<int64_t>(requests.size())),
                         bench.output_len > 0 ? bench.output_len : one.output_length};
    for (TokenId& id : request.prompt) id = static_cast<TokenId>(id % vocab_size);
    requests.push_back(std::move(request));
  }
  return requests;
}

// What requests of a length take that the model cannot hold would be measured wrongly.
Result<std::vector<BenchRequest>> make_requests(const ThroughputOptions& bench,
                                                const ModelInfo& info) {
  if (bench.dataset_name == "random") {
    const int64_t length = bench.prefix_len + bench.input_len +
                           (bench.output_len > 0 ? bench.output_len : kDefaultOutputLen);
    if (length > info.max_model_len) {
      return invalid_argument(
          format("a request has {} tokens (--prefix-len, --input-len and --output-len), the "
                 "context only {}",
                 length, info.max_model_len));
    }
    return random_requests(bench, info.vocab_size);
  }
  std::vector<BenchRequest> requests = OCTAVO_TRY(trace_requests(bench, info.vocab_size));
  const size_t num_left_out = std::erase_if(requests, [&](const BenchRequest& request) {
    return static_cast<int64_t>(request.prompt.size()) + request.output_len > info.max_model_len;
  });
  if (num_left_out > 0) {
    print_hint(format("{} requests of {} are left out: they are longer than the context of {}",
                      num_left_out, num_left_out + requests.size(), info.max_model_len));
  }
  if (requests.empty()) return invalid_argument("no request of the trace fits into the context");
  return requests;
}

// Collects the last events of all requests.
class Collector {
 public:
  Status run(AsyncEngine& engine, std::vector<BenchRequest> requests,
             const ThroughputOptions& bench) {
    auto seed = static_cast<uint64_t>(bench.seed);
    for (BenchRequest& one : requests) {
      EngineRequest request;
      request.prompt_token_ids = std::move(one.prompt);
      request.n = static_cast<int32_t>(bench.n);
      request.sampling.seed = seed++;
      request.sampling.temperature = static_cast<float>(bench.temperature);
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = one.output_len;
      request.output_kind = OutputKind::kFinalOnly;
      OCTAVO_TRY(
          engine.submit(std::move(request), [this](const RequestOutput& output) { take(output); })
              .status());
    }
    std::optional<ProgressBar> bar;
    if (ProgressBar::wanted()) bar.emplace("generating");
    std::unique_lock lock(mutex_);
    while (ttft_s_.size() < requests.size() && status_.ok()) {
      wake_.wait(lock);
      if (bar) {
        bar->show(static_cast<int64_t>(ttft_s_.size()), static_cast<int64_t>(requests.size()),
                  "requests");
      }
    }
    return status_;
  }

  const Usage& usage() const { return usage_; }

  const std::vector<double>& times_to_first_token() const { return ttft_s_; }

 private:
  void take(const RequestOutput& output) {
    if (!output.finished) return;
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = output.status;
    usage_.prompt_tokens += output.usage.prompt_tokens;
    usage_.completion_tokens += output.usage.completion_tokens;
    usage_.cached_tokens += output.usage.cached_tokens;
    ttft_s_.push_back(output.metrics.queued_s + output.metrics.prefill_s);
    wake_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Status status_;
  Usage usage_;
  std::vector<double> ttft_s_;
};

JsonObject make_report(const AsyncEngine& engine, const Collector& collector, double elapsed_s,
                       const EngineStats& before) {
  const EngineStats stats = engine.stats();
  const Usage& usage = collector.usage();
  const std::vector<double>& ttft = collector.times_to_first_token();
  const auto num_requests = static_cast<int64_t>(ttft.size());
  const int64_t total = usage.prompt_tokens + usage.completion_tokens;
  const double step_s = stats.step_s - before.step_s;
  const double forward_s = stats.forward_s - before.forward_s;
  const int64_t queries = stats.prefix_cache_queries - before.prefix_cache_queries;
  const int64_t hits = stats.prefix_cache_hits - before.prefix_cache_hits;
  const ModelInfo& info = engine.info();
  JsonObject report{
      {"model", info.path},
      {"backend", info.backend},
      {"kernels", info.kernels},
      {"threads", info.threads},
      {"kv_cache_dtype", info.kv_cache_dtype},
      {"max_num_seqs", engine.config().max_num_seqs},
      {"max_num_batched_tokens", engine.config().max_num_batched_tokens},
      {"elapsed_time", elapsed_s},
      {"num_requests", num_requests},
      {"num_prompt_tokens", usage.prompt_tokens},
      {"num_output_tokens", usage.completion_tokens},
      {"total_num_tokens", total},
      {"requests_per_second", static_cast<double>(num_requests) / elapsed_s},
      {"tokens_per_second", static_cast<double>(total) / elapsed_s},
      {"output_tokens_per_second", static_cast<double>(usage.completion_tokens) / elapsed_s},
      {"num_steps", stats.num_steps - before.num_steps},
      {"forward_s", forward_s},
      {"other_s", step_s - forward_s},
      {"other_share", step_s > 0 ? (step_s - forward_s) / step_s : 0.0},
      {"ttft_s",
       {{"p50", percentile(ttft, 50)},
        {"p90", percentile(ttft, 90)},
        {"p99", percentile(ttft, 99)}}},
      {"prefix_cache_queries", queries},
      {"prefix_cache_hits", hits},
      {"prefix_cache_hit_rate",
       queries > 0 ? static_cast<double>(hits) / static_cast<double>(queries) : 0.0},
      {"num_preemptions", stats.num_preemptions - before.num_preemptions}};
  if (!engine.config().speculative_config) return report;
  report["spec_decode_num_drafts"] = stats.spec_decode_num_drafts - before.spec_decode_num_drafts;
  report["spec_decode_num_draft_tokens"] =
      stats.spec_decode_num_draft_tokens - before.spec_decode_num_draft_tokens;
  report["spec_decode_num_accepted_tokens"] =
      stats.spec_decode_num_accepted_tokens - before.spec_decode_num_accepted_tokens;
  return report;
}

// The first line is the one that scripts made for vLLM read.
std::string render_throughput(const JsonObject& r) {
  const auto number = [&](const char* key) { return r.at(key).to_number<double>(); };
  const auto count = [&](const char* key) { return r.at(key).to_number<int64_t>(); };
  const JsonObject& ttft = r.at("ttft_s").as_object();
  std::string out =
      format("Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n",
             number("requests_per_second"), number("tokens_per_second"),
             number("output_tokens_per_second"));
  out += format("Total num prompt tokens:  {}\nTotal num output tokens:  {}\n",
                count("num_prompt_tokens"), count("num_output_tokens"));
  out += format("{} steps: {:.2f} s forward, {:.3f} s scheduler, sampler and output = {:.1f} %\n",
                count("num_steps"), number("forward_s"), number("other_s"),
                100 * number("other_share"));
  out += format("TTFT: median {:.3f} s, p90 {:.3f} s, p99 {:.3f} s\n", ttft.at("p50").as_double(),
                ttft.at("p90").as_double(), ttft.at("p99").as_double());
  out += format("prefix cache: {} of {} prompt tokens = {:.1f} %; {} preemptions\n",
                count("prefix_cache_hits"), count("prefix_cache_queries"),
                100 * number("prefix_cache_hit_rate"), count("num_preemptions"));
  if (r.if_contains("spec_decode_num_drafts") == nullptr) return out;
  return out + format("speculation: {} of {} draft tokens accepted, {} drafts\n",
                      count("spec_decode_num_accepted_tokens"),
                      count("spec_decode_num_draft_tokens"), count("spec_decode_num_drafts"));
}

Result<JsonObject> measure(AsyncEngine& engine, const ThroughputOptions& bench) {
  std::vector<BenchRequest> requests = OCTAVO_TRY(make_requests(bench, engine.info()));
  // Memory that is touched for the first time is not what is measured.
  Collector warm_up;
  ThroughputOptions one = bench;
  one.n = 1;
  OCTAVO_TRY(warm_up.run(engine, {{{0}, 1}}, one));
  // Between two steps, so that the figures are those after it.
  OCTAVO_TRY(engine.reset_prefix_cache());
  const EngineStats before = engine.stats();
  Collector collector;
  const double start = now_seconds();
  const Status status = collector.run(engine, std::move(requests), bench);
  const double elapsed_s = now_seconds() - start;
  // Ends what still runs after an error, and makes the figures those of the last step.
  engine.shutdown();
  OCTAVO_TRY(status);
  return make_report(engine, collector, elapsed_s, before);
}

Status write_json(const std::string& path, const JsonObject& report) {
  std::ofstream file(path);
  file << dump_json(report, 2) << '\n';
  file.close();
  return file ? Status() : data_loss(format("--output-json {}: cannot be written", path));
}

Status run_throughput(const EngineSetup& setup) {
  EngineConfig config = setup.options.engine;
  config.max_num_queued_reqs = config.max_num_queued_tokens = kUnboundedQueue;
  const auto engine = OCTAVO_TRY(create_engine(setup.path, config));
  const ThroughputOptions& bench = setup.options.throughput;
  const JsonObject report = OCTAVO_TRY(measure(*engine, bench));
  if (!bench.output_json.empty()) OCTAVO_TRY(write_json(bench.output_json, report));
  return print_out(render_throughput(report)) ? Status()
                                              : internal_error("the figures were not printed");
}

}  // namespace

int run_bench_throughput(int argc, const char* const* argv) {
  const auto setup = set_up_engine(kThroughputCommand, {argv + 1, argv + argc}, check_throughput);
  if (const int* exit_code = std::get_if<int>(&setup)) return *exit_code;
  const Status status = run_throughput(std::get<EngineSetup>(setup));
  return status.ok() ? kExitOk : fail(status);
}

}  // namespace octavo::cli
