// `octavo bench serve`: load for a running server, with the arguments, the output and the JSON of
// `vllm bench serve`. Any server with OpenAI's streaming API can be measured.
#include <sys/resource.h>

#include <cmath>
#include <ctime>
#include <fstream>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cli/bench_serve_args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/resolve_model.h"
#include "octavo/model.h"

namespace octavo::cli {
namespace {

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

Result<LoadReport> measure(ServeBenchArgs& bench) {
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
  LoadReport report =
      make_report(OCTAVO_TRY(run_load(target, bench.traffic, samples)), bench.report);
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
  if (const auto exit_code = bench.parse(argc, argv)) return *exit_code;
  raise_descriptor_limit();
  const auto report = measure(bench);
  if (!report.ok()) return fail(report.status());
  return print_out(report->text) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
