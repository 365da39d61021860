#include "cli/bench_serve_args.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "cli/args.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

void declare_server(Args& args, ServeBenchArgs& bench) {
  args.choice("--backend", bench.backend, {"openai", "openai-chat", "vllm"},
              "openai and vllm: completions; openai-chat: chat completions");
  args.option("--base-url", bench.base_url, "of the server, in place of host and port");
  args.option("--host", bench.host, "of the server");
  args.option("--port", bench.port, "of the server");
  args.option("--endpoint", bench.endpoint,
              "the path; default /v1/completions, or /v1/chat/completions of openai-chat");
  args.option("--model", bench.model, "what requests name; default: the server's first model");
  args.option("--served-model-name", bench.served_model_name,
              "what requests name, where --model is the path of the tokenizer");
  args.option("--tokenizer", bench.tokenizer,
              "a model, as other commands take it, whose tokenizer makes the prompts; default: "
              "--model, or what the server says of its model");
  args.list("--header", bench.headers, "NAME=VALUE pairs that each request carries");
  for (size_t i = 0; i < std::size(kSamplingFields); ++i) {
    std::string flag = format("--{}", kSamplingFields[i]);
    std::replace(flag.begin(), flag.end(), '_', '-');
    args.option(flag, bench.sampling[i], "of each request; default: the server's");
  }
  args.option("--extra-body", bench.extra_body, "a JSON object that is part of each request");
  args.option("--logprobs", bench.logprobs, "log-probabilities to ask for");
  args.flag("--ignore-eos", bench.ignore_eos,
            "answers have their full length; always with random and trace");
}

void declare_dataset(Args& args, ServeBenchArgs& bench) {
  DatasetOptions& dataset = bench.dataset;
  args.choice("--dataset-name", dataset.name,
              {"random", "sharegpt", "trace", "timed_trace", "prefix_repetition"},
              "where prompts come from; trace and timed_trace are the same");
  args.option("--dataset-path", dataset.path,
              "the file: ShareGPT's JSON; a trace as Azure's CSV or Mooncake's lines of JSON");
  args.option("--num-prompts", dataset.num_prompts, "requests");
  args.option("--seed", dataset.seed, "of prompts and arrivals");
  args.option("--input-len", bench.input_len, "the same as --random-input-len");
  args.option("--output-len", bench.output_len, "tokens of each answer, of any dataset but traces");
  args.option("--random-input-len", dataset.random_input_len, "tokens of each prompt");
  args.option("--random-output-len", dataset.random_output_len, "tokens of each answer");
  args.option("--random-range-ratio", dataset.random_range_ratio,
              "0 to below 1: lengths vary by this share to either side");
  args.option("--random-prefix-len", dataset.random_prefix_len,
              "tokens before the input that all prompts share");
  args.option("--sharegpt-output-len", dataset.sharegpt_output_len,
              "tokens of each answer; default: as long as the conversation's own");
  args.option("--prefix-repetition-prefix-len", dataset.prefix_len, "tokens of each prefix");
  args.option("--prefix-repetition-suffix-len", dataset.suffix_len, "tokens after it");
  args.option("--prefix-repetition-num-prefixes", dataset.num_prefixes, "different prefixes");
  args.option("--prefix-repetition-output-len", dataset.prefix_output_len, "tokens of each answer");
  args.flag("--no-self-timed", bench.no_self_timed,
            "send a trace's requests by --request-rate, not at their own times");
}

void declare_traffic_and_report(Args& args, ServeBenchArgs& bench) {
  args.option("--request-rate", bench.traffic.request_rate,
              "requests per second; inf: all at once");
  args.option("--burstiness", bench.traffic.burstiness,
              "1: Poisson arrivals; below: in bursts; above: more even");
  args.option("--max-concurrency", bench.traffic.max_concurrency, "requests at once; 0: no limit");
  args.option("--num-warmups", bench.num_warmups, "requests before, which do not count");
  args.flag("--disable-tqdm", bench.disable_tqdm, "show no progress");
  args.option("--percentile-metrics", bench.percentile_metrics,
              "what to report, of ttft, tpot, itl, e2el, client_queue_time and "
              "e2el_including_client_queue");
  args.option("--metric-percentiles", bench.metric_percentiles, "for example 50,90,99");
  args.list("--goodput", bench.goodput,
            "NAME:MILLISECONDS of ttft, tpot, e2el: count the requests that keep all of them");
  args.flag("--save-result", bench.save_result, "write the result as JSON");
  args.flag("--save-detailed", bench.save_detailed, "with the times of every request");
  args.flag("--append-result", bench.append_result, "as a further line of the file");
  args.option("--result-dir", bench.result_dir, "where the file goes");
  args.option("--result-filename", bench.result_filename, "its name");
  args.option("--label", bench.label, "begins its name; default: --backend");
  args.list("--metadata", bench.metadata, "KEY=VALUE pairs for the JSON");
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Status check_numbers(const ServeBenchArgs& bench) {
  struct Limit {
    const char* flag;
    int64_t value;
    int64_t least;
  };
  const DatasetOptions& dataset = bench.dataset;
  constexpr int64_t kMost = 1 << 24;
  for (const Limit& limit : {Limit{"--num-prompts", dataset.num_prompts, 1},
                             {"--random-input-len", dataset.random_input_len, 1},
                             {"--random-output-len", dataset.random_output_len, 1},
                             {"--random-prefix-len", dataset.random_prefix_len, 0},
                             {"--sharegpt-output-len", dataset.sharegpt_output_len.value_or(1), 1},
                             {"--prefix-repetition-prefix-len", dataset.prefix_len, 1},
                             {"--prefix-repetition-suffix-len", dataset.suffix_len, 1},
                             {"--prefix-repetition-num-prefixes", dataset.num_prefixes, 1},
                             {"--prefix-repetition-output-len", dataset.prefix_output_len, 1},
                             {"--num-warmups", bench.num_warmups, 0},
                             {"--max-concurrency", bench.traffic.max_concurrency, 0}}) {
    if (limit.value >= limit.least && limit.value <= kMost) continue;
    return invalid_argument(
        format("{} is {}, which must lie in {}..{}", limit.flag, limit.value, limit.least, kMost));
  }
  const double ratio = dataset.random_range_ratio;
  if (!(ratio >= 0 && ratio < 1)) {
    return invalid_argument(format("--random-range-ratio is {}, which must lie in [0, 1)", ratio));
  }
  if (!(bench.traffic.request_rate > 0)) return invalid_argument("--request-rate must be positive");
  if (!(bench.traffic.burstiness > 0 && std::isfinite(bench.traffic.burstiness))) {
    return invalid_argument("--burstiness must be positive");
  }
  const bool takes_path = dataset.name == "sharegpt" || dataset.name == "trace";
  if (takes_path == dataset.path.empty()) {
    return invalid_argument(
        format("--dataset-name {} takes {} --dataset-path", dataset.name, takes_path ? "a" : "no"));
  }
  if (dataset.name == "trace" && bench.backend == "openai-chat") {
    return invalid_argument("a trace's prompts are token ids: use --backend openai");
  }
  return {};
}

Result<ReportOptions> report_options(const ServeBenchArgs& bench) {
  ReportOptions options;
  options.metrics = split(bench.percentile_metrics);
  for (const std::string& name : options.metrics) {
    bool known = false;
    for (const char* metric :
         {"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}) {
      known = known || name == metric;
    }
    if (!known) return invalid_argument(format("--percentile-metrics: '{}' is unknown", name));
  }
  options.percentiles.clear();
  for (const std::string& text : split(bench.metric_percentiles)) {
    double value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 100)) {
      return invalid_argument(format("--metric-percentiles: '{}' must lie in 0..100", text));
    }
    options.percentiles.push_back(value);
  }
  options.goodput = OCTAVO_TRY(parse_goodput(bench.goodput));
  options.request_rate = bench.traffic.request_rate;
  options.max_concurrency = bench.traffic.max_concurrency;
  return options;
}

}  // namespace

std::optional<int> ServeBenchArgs::parse(int argc, const char* const* argv) {
  Args args("bench serve", "Measure a running server under load.",
            "  octavo bench serve --tokenizer smollm2 --random-input-len 128 --num-prompts 100\n"
            "  octavo bench serve --backend openai-chat --request-rate 4 --goodput ttft:500\n"
            "  octavo bench serve --dataset-name trace --dataset-path azure_conv_2023.csv\n");
  declare_server(args, *this);
  declare_dataset(args, *this);
  declare_traffic_and_report(args, *this);
  if (const auto exit_code = args.parse(argc, argv)) return exit_code;
  if (dataset.name == "timed_trace") dataset.name = "trace";
  if (input_len) dataset.random_input_len = *input_len;
  if (output_len) {
    dataset.random_output_len = *output_len;
    dataset.prefix_output_len = *output_len;
    dataset.sharegpt_output_len = output_len;
  }
  traffic.seed = dataset.seed;
  traffic.self_timed = dataset.name == "trace" && !no_self_timed;
  traffic.show_progress = !disable_tqdm && isatty(STDERR_FILENO) != 0;
  const Status numbers = check_numbers(*this);
  auto options = numbers.ok() ? report_options(*this) : numbers;
  if (!options.ok()) {
    print_error(options.status().message());
    return kExitUsage;
  }
  report = std::move(*options);
  return std::nullopt;
}

}  // namespace octavo::cli
