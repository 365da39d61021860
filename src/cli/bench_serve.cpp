// `octavo bench serve`: load for a running server, with the arguments, the output and the JSON of
// `vllm bench serve`. Any server with OpenAI's streaming API can be measured.
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <fstream>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/load_client.h"
#include "cli/load_report.h"
#include "cli/load_samples.h"
#include "cli/message.h"
#include "cli/resolve_model.h"
#include "octavo/model.h"

namespace octavo::cli {
namespace {

// Fields of a request that are numbers, each with a flag of its name.
constexpr const char* kSamplingFields[] = {
    "temperature",       "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty"};

struct ServeBenchArgs {
  std::string backend = "openai";
  std::string base_url;
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  std::string endpoint;
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  std::vector<std::string> headers;
  std::string sampling[std::size(kSamplingFields)];
  std::string extra_body;
  std::optional<int64_t> logprobs;
  bool ignore_eos = false;
  std::optional<int64_t> input_len;
  std::optional<int64_t> output_len;
  bool no_self_timed = false;
  bool disable_tqdm = false;
  int64_t num_warmups = 0;
  std::string percentile_metrics = "ttft,tpot,itl";
  std::string metric_percentiles = "99";
  std::vector<std::string> goodput;
  bool save_result = false;
  bool save_detailed = false;
  bool append_result = false;
  std::string result_dir;
  std::string result_filename;
  std::string label;
  std::vector<std::string> metadata;
  DatasetOptions dataset;
  LoadTraffic traffic;
};

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

Result<LoadTarget> make_target(const ServeBenchArgs& bench, const std::string& base_url) {
  LoadTarget target;
  target.is_chat = bench.backend == "openai-chat";
  const char* path = target.is_chat ? "/v1/chat/completions" : "/v1/completions";
  target.url = base_url + (bench.endpoint.empty() ? path : bench.endpoint);
  target.ignore_eos =
      bench.ignore_eos || bench.dataset.name == "random" || bench.dataset.name == "trace";
  target.logprobs = bench.logprobs;
  const std::string key = env_string("OPENAI_API_KEY");
  if (!key.empty()) target.headers.push_back("Authorization: Bearer " + key);
  for (const std::string& header : bench.headers) {
    const size_t equals = header.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_argument(format("--header: '{}' is no NAME=VALUE", header));
    }
    target.headers.push_back(header.substr(0, equals) + ": " + header.substr(equals + 1));
  }
  for (size_t i = 0; i < std::size(kSamplingFields); ++i) {
    if (bench.sampling[i].empty()) continue;
    Json value = OCTAVO_TRY(parse_json(bench.sampling[i], kSamplingFields[i]));
    if (!value.is_number()) {
      return invalid_argument(
          format("{}: '{}' is no number", kSamplingFields[i], bench.sampling[i]));
    }
    target.extra_body[kSamplingFields[i]] = std::move(value);
  }
  if (bench.extra_body.empty()) return target;
  const Json extra = OCTAVO_TRY(parse_json(bench.extra_body, "--extra-body"));
  if (!extra.is_object()) return invalid_argument("--extra-body must be a JSON object");
  for (const auto& entry : extra.get_object()) target.extra_body[entry.key()] = entry.value();
  return target;
}

struct ServedModel {
  std::string id;
  std::string root;
  int64_t max_model_len = 0;  // 0: not said
};

Result<ServedModel> ask_model(const std::string& base_url,
                              const std::vector<std::string>& headers) {
  const std::string url = base_url + "/v1/models";
  const Json list = OCTAVO_TRY(get_json(url, headers));
  const JsonArray& data = *OCTAVO_TRY(json_array(list, "data", url));
  if (data.empty()) return unavailable(format("{}: the server has no model", url));
  ServedModel model;
  model.id = OCTAVO_TRY(json_string(data[0], "id", url));
  const auto root = json_string(data[0], "root", url);
  if (root.ok()) model.root = *root;
  const auto max_model_len = json_int(data[0], "max_model_len", url);
  if (max_model_len.ok()) model.max_model_len = *max_model_len;
  return model;
}

// A descriptor for each stream; the usual limit is 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string rate_text(double rate) {
  return std::isinf(rate) ? "inf" : dump_json(Json(rate));
}

std::string result_path(const ServeBenchArgs& bench, const std::string& model,
                        const std::string& date) {
  std::string name = bench.result_filename;
  if (name.empty()) {
    const std::string concurrency = bench.traffic.max_concurrency > 0
                                        ? format("-concurrency{}", bench.traffic.max_concurrency)
                                        : "";
    name = format("{}-{}qps{}-{}-{}.json", bench.label.empty() ? bench.backend : bench.label,
                  rate_text(bench.traffic.request_rate), concurrency,
                  model.substr(model.rfind('/') + 1), date);
  }
  return bench.result_dir.empty() ? name : bench.result_dir + "/" + name;
}

Result<JsonObject> describe_run(const ServeBenchArgs& bench, const std::string& model,
                                const std::string& date) {
  const LoadTraffic& traffic = bench.traffic;
  JsonObject json{{"date", date},
                  {"endpoint_type", bench.backend},
                  {"backend", bench.backend},
                  {"label", bench.label.empty() ? Json(nullptr) : Json(bench.label)},
                  {"model_id", model},
                  {"tokenizer_id", bench.tokenizer},
                  {"num_prompts", bench.dataset.num_prompts}};
  for (const std::string& pair : bench.metadata) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return invalid_argument(format("--metadata: '{}' is no KEY=VALUE", pair));
    }
    json[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  json["request_rate"] =
      std::isinf(traffic.request_rate) ? Json("inf") : Json(traffic.request_rate);
  json["burstiness"] = traffic.burstiness;
  json["max_concurrency"] =
      traffic.max_concurrency > 0 ? Json(traffic.max_concurrency) : Json(nullptr);
  return json;
}

Status save(const ServeBenchArgs& bench, const std::string& path, const JsonObject& json) {
  std::ofstream file(path, bench.append_result ? std::ios::app : std::ios::trunc);
  if (bench.append_result && file.tellp() != 0) file << "\n";
  file << dump_json(json);
  file.close();
  return file ? Status() : unavailable(format("{}: cannot be written", path));
}

std::string local_date() {
  const std::time_t now = std::time(nullptr);
  std::tm time{};
  localtime_r(&now, &time);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &time);
  return text;
}

// One request before the others, so that a wrong URL or model is one error, not a thousand.
Status warm_up(const ServeBenchArgs& bench, const LoadTarget& target,
               const std::vector<LoadSample>& samples) {
  const LoadRun test = OCTAVO_TRY(run_load(target, {}, {samples[0]}));
  if (!test.records[0].success) {
    return unavailable(
        format("{}: the test request failed: {}", target.url, test.records[0].error));
  }
  if (bench.num_warmups == 0) return {};
  LoadTraffic traffic;
  traffic.max_concurrency = bench.traffic.max_concurrency;
  OCTAVO_TRY(run_load(target, traffic,
                      std::vector<LoadSample>(static_cast<size_t>(bench.num_warmups), samples[0])));
  return {};
}

Result<LoadReport> measure(ServeBenchArgs& bench, const ReportOptions& options) {
  const std::string base_url =
      !bench.base_url.empty() ? bench.base_url : format("http://{}:{}", bench.host, bench.port);
  LoadTarget target = OCTAVO_TRY(make_target(bench, base_url));
  const auto served = ask_model(base_url, target.headers);
  if (!served.ok() && bench.model.empty()) return served.status();
  const std::string model = bench.model.empty() ? served->id : bench.model;
  target.model = bench.served_model_name.empty() ? model : bench.served_model_name;
  if (bench.tokenizer.empty()) {
    bench.tokenizer = bench.model.empty() && !served->root.empty() ? served->root : model;
  }
  if (served.ok()) bench.dataset.max_model_len = served->max_model_len;
  const auto path = resolve_model(bench.tokenizer);
  if (!path.ok()) {
    return not_found(format("{}\nhint: --tokenizer names a model whose tokenizer makes the prompts",
                            path.status().message()));
  }
  const auto tokenizer = OCTAVO_TRY(load_tokenizer(*path));
  const auto samples = OCTAVO_TRY(make_samples(bench.dataset, *tokenizer));
  JsonObject json = OCTAVO_TRY(describe_run(bench, model, local_date()));
  OCTAVO_TRY(warm_up(bench, target, samples));
  LoadReport report = make_report(OCTAVO_TRY(run_load(target, bench.traffic, samples)), options);
  for (const auto& entry : report.json) json[entry.key()] = entry.value();
  if (!bench.save_detailed) remove_details(json);
  if (bench.save_result || bench.append_result) {
    const std::string date(to_view(json.at("date").get_string()));
    OCTAVO_TRY(save(bench, result_path(bench, model, date), json));
  }
  return report;
}

}  // namespace

int run_bench_serve(int argc, const char* const* argv) {
  ServeBenchArgs bench;
  Args args("bench serve", "Measure a running server under load.",
            "  octavo bench serve --tokenizer smollm2 --random-input-len 128 --num-prompts 100\n"
            "  octavo bench serve --backend openai-chat --request-rate 4 --goodput ttft:500\n"
            "  octavo bench serve --dataset-name trace --dataset-path azure_conv_2023.csv\n");
  declare_server(args, bench);
  declare_dataset(args, bench);
  declare_traffic_and_report(args, bench);
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  DatasetOptions& dataset = bench.dataset;
  if (dataset.name == "timed_trace") dataset.name = "trace";
  if (bench.input_len) dataset.random_input_len = *bench.input_len;
  if (bench.output_len) {
    dataset.random_output_len = *bench.output_len;
    dataset.prefix_output_len = *bench.output_len;
    dataset.sharegpt_output_len = bench.output_len;
  }
  bench.traffic.seed = dataset.seed;
  bench.traffic.self_timed = dataset.name == "trace" && !bench.no_self_timed;
  bench.traffic.show_progress = !bench.disable_tqdm && isatty(STDERR_FILENO) != 0;
  const Status numbers = check_numbers(bench);
  const auto options = numbers.ok() ? report_options(bench) : numbers;
  if (!options.ok()) {
    print_error(options.status().message());
    return kExitUsage;
  }
  raise_descriptor_limit();
  const auto report = measure(bench, *options);
  if (!report.ok()) return fail(report.status());
  return print_out(report->text) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
