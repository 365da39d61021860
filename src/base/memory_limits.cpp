#include "base/memory_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/cgroup.h"

namespace octavo {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number after `key` in a file of lines "key number"; -1 where there is none.
int64_t read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) == 0) {
      return std::strtoll(line.c_str() + key.size(), nullptr, 10);
    }
  }
  return -1;
}

// The number that is all of a file; -1 where it is a word ("max") or there is no such file.
int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : -1;
}

struct MemoryFiles {
  const char* folder;  // below the mount
  const char* controller;
  const char* limit;
  const char* usage;
  const char* cache_key;  // in memory.stat
};
constexpr MemoryFiles kMemoryFiles[] = {
    {"", "", "memory.max", "memory.current", "inactive_file "},
    {"/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
};

// What a limit of the process leaves, of which /proc/self/status says in KiB what is used.
int64_t left_of_limit(decltype(RLIMIT_AS) resource, const char* used_key) {
  rlimit limit{};
  const int64_t used_kib = read_field("/proc/self/status", used_key);
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || used_kib < 0) {
    return kUnlimited;
  }
  const auto most =
      static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
  return std::max<int64_t>(0, most - used_kib * 1024);
}

}  // namespace

int64_t cgroup_memory_left(const std::string& mount) {
  int64_t least = kUnlimited;
  for (const MemoryFiles& files : kMemoryFiles) {
    for (const std::string& folder : cgroup_folders(mount + files.folder, files.controller)) {
      const int64_t limit = read_number(folder + "/" + files.limit);
      const int64_t usage = read_number(folder + "/" + files.usage);
      if (limit < 0 || usage < 0) continue;
      const int64_t cache =
          std::max<int64_t>(0, read_field(folder + "/memory.stat", files.cache_key));
      least = std::min(least, std::max<int64_t>(0, limit - usage + cache));
    }
  }
  return least;
}

int64_t available_memory_bytes() {
  const int64_t machine_kib = read_field("/proc/meminfo", "MemAvailable:");
  int64_t least = machine_kib < 0 ? kUnlimited : machine_kib * 1024;
  for (const int64_t left :
       {cgroup_memory_left("/sys/fs/cgroup"), left_of_limit(RLIMIT_AS, "VmSize:"),
        left_of_limit(RLIMIT_DATA, "VmData:")}) {
    least = std::min(least, left);
  }
  return least == kUnlimited ? 0 : least;
}

}  // namespace octavo
