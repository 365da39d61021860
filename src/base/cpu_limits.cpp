// CPU affinity and cgroup quota: more threads than the quota grants are throttled in the middle of
// a barrier, which costs far more than it brings.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/cgroup.h"
#include "base/thread_pool.h"

namespace octavo {
namespace {

int affinity_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
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

double tightest(const std::string& mount, const std::string& controller,
                double (*read)(const std::string&)) {
  double tight = 0;
  for (const std::string& folder : cgroup_folders(mount, controller)) {
    const double quota = read(folder);
    if (quota > 0 && (tight == 0 || quota < tight)) tight = quota;
  }
  return tight;
}

}  // namespace

CpuLimits cpu_limits() {
  double quota = tightest("/sys/fs/cgroup", "", read_v2);
  if (quota == 0) quota = tightest("/sys/fs/cgroup/cpu", "cpu", read_v1);
  return {affinity_cpus(), quota};
}

int available_threads() {
  const CpuLimits limits = cpu_limits();
  if (limits.quota <= 0) return limits.num_cpus;
  return std::clamp(static_cast<int>(std::floor(limits.quota)), 1, limits.num_cpus);
}

}  // namespace octavo
