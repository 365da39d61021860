// `octavo doctor`: what this machine has, which kernels run and why.
#include <unistd.h>

#include <fstream>

#include "backends/registry.h"
#include "base/env.h"
#include "base/format.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

// A field of /proc/meminfo in bytes, 0 where it is missing.
int64_t meminfo(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  std::string rest;
  while (file >> name >> kilobytes && std::getline(file, rest)) {
    if (name == field + ":") return kilobytes * 1024;
  }
  return 0;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? "unknown" : line;
}

JsonObject make_report() {
  const CpuLimits limits = cpu_limits();
  JsonArray present;
  JsonArray missing;
  for (const backends::CpuFeature& feature : backends::cpu_features()) {
    (feature.present ? present : missing).emplace_back(feature.name);
  }
  JsonObject report;
  report["cpu"] = JsonObject{{"model", backends::cpu_model_name()},
                             {"features", std::move(present)},
                             {"missing_features", std::move(missing)},
                             {"cpus_in_affinity_mask", limits.num_cpus},
                             {"cgroup_quota_cpus", limits.quota > 0 ? Json(limits.quota) : Json()},
                             {"threads", available_threads()}};
  report["memory"] = JsonObject{
      {"total_bytes", meminfo("MemTotal")},
      {"available_bytes", meminfo("MemAvailable")},
      {"transparent_huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")}};
  const auto backend = backends::open_backend("auto", backends::Arithmetic::kAuto);
  if (backend.ok()) {
    JsonArray kernels;
    for (const std::string& line : backends::describe_kernels(*backend)) {
      kernels.emplace_back(line);
    }
    const auto attention = backends::choose_attention("auto", backends::attention_facts(*backend));
    report["backend"] = JsonObject{{"name", backend->name},
                                   {"kernels", backend->kernels},
                                   {"reason", backend->kernels_reason},
                                   {"attention", attention.ok() ? backends::describe(*attention)
                                                                : attention.status().message()},
                                   {"table", std::move(kernels)}};
  } else {
    report["backend"] = JsonObject{{"error", backend.status().message()}};
  }
  JsonArray gpu;
  for (const std::string& line : backends::describe_gpu()) gpu.emplace_back(line);
  report["gpu"] = std::move(gpu);
  report["octavo_home"] = octavo_home();
  return report;
}

std::string join(const JsonArray& words) {
  std::string out;
  for (const Json& word : words) {
    if (!out.empty()) out += ' ';
    out += to_view(word.as_string());
  }
  return out.empty() ? "none" : out;
}

std::string render_doctor(const JsonObject& report) {
  const JsonObject& cpu = report.at("cpu").as_object();
  const JsonObject& memory = report.at("memory").as_object();
  const JsonObject& backend = report.at("backend").as_object();
  const auto text = [](const Json& value) { return std::string(to_view(value.as_string())); };
  constexpr double kGib = 1024.0 * 1024 * 1024;
  std::string out = format("CPU        {}\n", text(cpu.at("model")));
  out += format("  features {}\n", join(cpu.at("features").as_array()));
  out += format("  missing  {}\n", join(cpu.at("missing_features").as_array()));
  out += format("Threads    {}: {} CPUs in the affinity mask, {}\n", cpu.at("threads").as_int64(),
                cpu.at("cpus_in_affinity_mask").as_int64(),
                cpu.at("cgroup_quota_cpus").is_null()
                    ? "no cgroup quota"
                    : format("cgroup quota {:.2f}", cpu.at("cgroup_quota_cpus").as_double()));
  out += format("Memory     {:.1f} GiB, {:.1f} GiB available\n",
                static_cast<double>(memory.at("total_bytes").as_int64()) / kGib,
                static_cast<double>(memory.at("available_bytes").as_int64()) / kGib);
  out += format("  huge pages (transparent) {}\n", text(memory.at("transparent_huge_pages")));
  if (const Json* error = backend.if_contains("error")) {
    out += format("Backend    none: {}\n", text(*error));
  } else {
    out += format("Backend    {}, kernels {}: {}\n", text(backend.at("name")),
                  text(backend.at("kernels")), text(backend.at("reason")));
    out += format("  attention {}\n", text(backend.at("attention")));
    for (const Json& line : backend.at("table").as_array()) out += format("  {}\n", text(line));
  }
  for (const Json& line : report.at("gpu").as_array()) out += format("GPU        {}\n", text(line));
  out += format("Models     {}/models\n", text(report.at("octavo_home")));
  return out;
}

}  // namespace

int run_doctor(int argc, const char* const* argv) {
  bool json = false;
  Args args("doctor", "Show what this machine has, which kernels run and why.",
            "  octavo doctor\n  OCTAVO_KERNELS=avx2 octavo doctor --json\n");
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const JsonObject report = make_report();
  const bool healthy = report.at("backend").as_object().if_contains("error") == nullptr;
  const bool written = print_out(json ? dump_json(report, 2) + "\n" : render_doctor(report));
  return healthy && written ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
