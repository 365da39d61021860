// CPU affinity and cgroup quota: more threads than the quota grants are throttled in the middle of
// a barrier, which costs far more than it brings.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/thread_pool.h"

namespace octavo {
namespace {

int affinity_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// This process's path below the cgroup mount for `controller` ("" is the v2 hierarchy).
std::string cgroup_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? names == ",,"
                           : names.find("," + controller + ",") != std::string::npos)
      return line.substr(second + 1);
  }
  return "";
}

double read_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double read_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

// The tightest quota of this group and its parents; inside a container only the mount's root is
// seen.
double tightest(const std::string& mount, std::string path, double (*read)(const std::string&)) {
  double tight = 0;
  while (true) {
    const double quota = read(mount + path);
    if (quota > 0 && (tight == 0 || quota < tight)) tight = quota;
    if (path.empty() || path == "/") break;
    const size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return tight;
}

}  // namespace

CpuLimits cpu_limits() {
  double quota = tightest("/sys/fs/cgroup", cgroup_path(""), read_v2);
  if (quota == 0) quota = tightest("/sys/fs/cgroup/cpu", cgroup_path("cpu"), read_v1);
  return {affinity_cpus(), quota};
}

int available_threads() {
  const CpuLimits limits = cpu_limits();
  if (limits.quota <= 0) return limits.num_cpus;
  return std::clamp(static_cast<int>(std::floor(limits.quota)), 1, limits.num_cpus);
}

}  // namespace octavo
