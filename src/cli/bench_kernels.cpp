// `octavo bench kernels`: how fast single operations of the CPU backend are, and how far from what
// memory and arithmetic allow, which is measured in the same run.
#include <map>

#include "backends/kernel_bench.h"
#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/read_bandwidth.h"
#include "tokenizer/regex.h"

namespace octavo::cli {
namespace {

using backends::KernelBench;
using backends::KernelCase;

struct Limits {
  double bytes_per_s = 0;
  std::map<std::string_view, double> multiply_adds_per_s;  // by the name of a peak
};

// The cases whose names the pattern matches, in any part.
Result<std::vector<KernelCase>> choose(KernelBench& bench, const tokenizer::Regex& filter) {
  std::vector<KernelCase> chosen;
  for (KernelCase& one : bench.cases()) {
    if (OCTAVO_TRY(filter.find(one.name, 0))) chosen.push_back(std::move(one));
  }
  if (chosen.empty()) return invalid_argument("--filter matches no kernel's name");
  return chosen;
}

Limits measure_limits(KernelBench& bench, const std::vector<KernelCase>& cases) {
  Limits limits;
  limits.bytes_per_s = measure_read_bandwidth(bench.num_threads());
  for (const KernelCase& one : cases) {
    if (one.peak.empty() || limits.multiply_adds_per_s.contains(one.peak)) continue;
    limits.multiply_adds_per_s[one.peak] = bench.peak(one.peak);
  }
  return limits;
}

JsonObject make_report(const KernelCase& one, double seconds, const Limits& limits) {
  const double bytes_per_s = one.bytes / seconds;
  const double share_of_memory = bytes_per_s / limits.bytes_per_s;
  JsonObject report{{"name", one.name},
                    {"kernel", one.kernel},
                    {"us", seconds * 1e6},
                    {"gb_per_s", bytes_per_s / 1e9},
                    {"share_of_bandwidth", share_of_memory}};
  if (one.peak.empty()) return report;
  const double multiply_adds_per_s = one.multiply_adds / seconds;
  report["gop_per_s"] = 2 * multiply_adds_per_s / 1e9;
  report["peak"] = one.peak;
  report["share_of_peak"] = multiply_adds_per_s / limits.multiply_adds_per_s.at(one.peak);
  return report;
}

std::string render_limits(const KernelBench& bench, const Limits& limits) {
  std::string out = format("cpu ({}), {} threads; memory read {:.1f} GB/s", bench.kernels(),
                           bench.num_threads(), limits.bytes_per_s / 1e9);
  for (const auto& [name, rate] : limits.multiply_adds_per_s) {
    out += format("; {} {:.0f} Gop/s", name, 2 * rate / 1e9);
  }
  return out + format("\n{:<54}{:>12}{:>8}{:>9}{:>10}{:>8}\n", "kernel", "us", "GB/s", "% of it",
                      "Gop/s", "% of it");
}

std::string render_kernels(const JsonObject& r) {
  std::string out = format("{:<54}{:>12.1f}{:>8.1f}{:>9.0f}", to_view(r.at("name").as_string()),
                           r.at("us").as_double(), r.at("gb_per_s").as_double(),
                           100 * r.at("share_of_bandwidth").as_double());
  if (r.if_contains("gop_per_s") != nullptr) {
    out += format("{:>10.1f}{:>8.0f}", r.at("gop_per_s").as_double(),
                  100 * r.at("share_of_peak").as_double());
  }
  return out + "\n";
}

JsonObject document(const KernelBench& bench, const Limits& limits, JsonArray results) {
  JsonObject peaks;
  for (const auto& [name, rate] : limits.multiply_adds_per_s) peaks[name] = 2 * rate / 1e9;
  return {{"backend", "cpu"},
          {"kernels", bench.kernels()},
          {"threads", bench.num_threads()},
          {"memory_read_gb_per_s", limits.bytes_per_s / 1e9},
          {"peak_gop_per_s", std::move(peaks)},
          {"results", std::move(results)}};
}

// Lines are printed as they are measured.
Status run_kernels(const tokenizer::Regex& filter, int threads, bool json) {
  const auto bench = OCTAVO_TRY(KernelBench::create(threads));
  const std::vector<KernelCase> cases = OCTAVO_TRY(choose(*bench, filter));
  const Limits limits = measure_limits(*bench, cases);
  bool printed = json || print_out(render_limits(*bench, limits));
  JsonArray results;
  for (const KernelCase& one : cases) {
    if (!printed) break;
    JsonObject report = make_report(one, OCTAVO_TRY(bench->measure(one)), limits);
    if (json) {
      results.push_back(std::move(report));
    } else {
      printed = print_out(render_kernels(report));
    }
  }
  if (json) printed = print_out(dump_json(document(*bench, limits, std::move(results)), 2) + "\n");
  return printed ? Status() : internal_error("the figures were not printed");
}

}  // namespace

int run_bench_kernels(int argc, const char* const* argv) {
  std::string filter;
  int threads = 0;
  bool json = false;
  Args args("bench kernels",
            "Measure single operations of the CPU with the kernel set that it or OCTAVO_KERNELS "
            "chooses: time, bytes read from memory and multiply-adds (two operations each) a "
            "second, and their shares of what memory and registers allow.",
            "  octavo bench kernels --filter 'linear q4_0 .* rows=(1|8)$'\n"
            "  OCTAVO_KERNELS=avx2 octavo bench kernels --filter attention --json\n");
  args.option("--filter", filter, "a regular expression; only what has a part that it matches");
  args.option("--threads", threads, "0: as many as affinity and cgroup quota allow");
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (threads < 0 || threads > 1024) {
    print_error(format("--threads is {}, which must lie in 0..1024", threads));
    return kExitUsage;
  }
  const auto regex = tokenizer::Regex::compile(filter);
  if (!regex.ok()) {
    print_error(format("--filter: {}", regex.status().message()));
    return kExitUsage;
  }
  const Status status = run_kernels(*regex, threads, json);
  return status.ok() ? kExitOk : fail(status);
}

}  // namespace octavo::cli
