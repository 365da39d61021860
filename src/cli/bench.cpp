// `octavo bench`: of its kinds here is `latency`: prefill and decode speed of B sequences at
// once, with the share of the memory bandwidth that decoding reaches, measured in the same run.
#include <string_view>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/percentile.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "cli/read_bandwidth.h"

namespace octavo::cli {
namespace {

struct BenchArgs {
  int64_t input_len = 512;
  int64_t output_len = 64;
  int64_t batch_size = 1;
  int64_t num_iters = 5;
  bool json = false;
};

Result<JsonObject> measure(Model& model, const BenchArgs& bench) {
  std::vector<double> prefill;
  std::vector<double> decode;
  for (int64_t i = 0; i <= bench.num_iters; ++i) {  // the first one warms up
    const auto run =
        OCTAVO_TRY(model.measure_latency(bench.batch_size, bench.input_len, bench.output_len));
    if (i == 0) continue;
    const auto sequences = static_cast<double>(bench.batch_size);
    prefill.push_back(sequences * static_cast<double>(bench.input_len) / run.prefill_s);
    if (bench.output_len > 1) {
      decode.push_back(sequences * static_cast<double>(bench.output_len - 1) / run.decode_s);
    }
  }
  const ModelInfo& info = model.info();
  JsonObject report{{"model", info.path},
                    {"backend", info.backend},
                    {"kernels", info.kernels},
                    {"dtype", info.dtype},
                    {"kv_cache_dtype", info.kv_cache_dtype},
                    {"attention", info.attention},
                    {"threads", info.threads},
                    {"batch_size", bench.batch_size},
                    {"input_len", bench.input_len},
                    {"output_len", bench.output_len},
                    {"num_iters", bench.num_iters},
                    {"prefill_tokens_per_s", percentile(prefill, 50)}};
  if (decode.empty()) return report;
  const double tokens_per_s = percentile(decode, 50);
  // Weights are read once for all sequences of a step.
  const double bytes_per_s =
      tokens_per_s / static_cast<double>(bench.batch_size) * static_cast<double>(info.decode_bytes);
  report["decode_tokens_per_s"] = tokens_per_s;
  report["decode_weight_gb_per_s"] = bytes_per_s / 1e9;
  if (info.backend == "cuda") return report;  // whose memory the host cannot read
  const double bandwidth = measure_read_bandwidth(info.threads);
  report["memory_read_gb_per_s"] = bandwidth / 1e9;
  report["decode_share_of_bandwidth"] = bytes_per_s / bandwidth;
  return report;
}

std::string render_bench(const JsonObject& r) {
  const auto text = [&](const char* key) { return to_view(r.at(key).as_string()); };
  std::string out =
      format("{} on {} ({}), {} arithmetic, KV {}, {} threads\n", text("model"), text("backend"),
             text("kernels"), text("dtype"), text("kv_cache_dtype"), r.at("threads").as_int64());
  out += format("{} x ({} in + {} out), median of {}\n", r.at("batch_size").as_int64(),
                r.at("input_len").as_int64(), r.at("output_len").as_int64(),
                r.at("num_iters").as_int64());
  out += format("prefill {:9.1f} tokens/s\n", r.at("prefill_tokens_per_s").as_double());
  if (r.if_contains("decode_tokens_per_s") == nullptr) return out;
  out +=
      format("decode  {:9.1f} tokens/s, weights at {:.1f} GB/s",
             r.at("decode_tokens_per_s").as_double(), r.at("decode_weight_gb_per_s").as_double());
  if (r.if_contains("memory_read_gb_per_s") == nullptr) return out + "\n";
  return out + format(" = {:.0f} % of {:.1f} GB/s read bandwidth\n",
                      100 * r.at("decode_share_of_bandwidth").as_double(),
                      r.at("memory_read_gb_per_s").as_double());
}

}  // namespace

int run_bench(int argc, const char* const* argv) {
  constexpr struct {
    std::string_view name;
    int (*run)(int argc, const char* const* argv);
  } kOthers[] = {{"kernels", run_bench_kernels},
                 {"serve", run_bench_serve},
                 {"throughput", run_bench_throughput}};
  for (const auto& other : kOthers) {
    if (argc > 1 && other.name == argv[1]) return other.run(argc - 1, argv + 1);
  }
  std::string what;
  BenchArgs bench;
  Args args(
      "bench",
      "Measure speed. WHAT is latency, with the flags below, or kernels, serve or throughput, "
      "with their own.",
      "  octavo bench latency smollm2 --input-len 512 --output-len 64 --batch-size 1\n"
      "  octavo bench kernels --help\n"
      "  octavo bench throughput --help\n"
      "  octavo bench serve --help\n");
  args.positional("WHAT", what,
                  "latency: prefill and decode of a batch; kernels: single operations; serve: load "
                  "for a server; throughput: many requests");
  ModelArgs model_args(args);
  args.option("--input-len", bench.input_len, "tokens of each prompt");
  args.option("--output-len", bench.output_len, "tokens of each answer");
  args.option("--batch-size", bench.batch_size, "sequences at once");
  args.option("--num-iters", bench.num_iters, "runs of which the median is shown");
  args.flag("--json", bench.json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (what != "latency" || bench.num_iters < 1) {
    print_error(what != "latency"
                    ? format("bench knows latency, kernels, serve and throughput, not '{}'", what)
                    : format("--num-iters is {}, which must be at least 1", bench.num_iters));
    return kExitUsage;
  }
  const auto model = model_args.load();
  if (!model.ok()) return fail(model.status());
  const auto report = measure(**model, bench);
  if (!report.ok()) return fail(report.status());
  return print_out(bench.json ? dump_json(*report, 2) + "\n" : render_bench(*report)) ? kExitOk
                                                                                      : kExitFailed;
}

}  // namespace octavo::cli
