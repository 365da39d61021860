#include "base/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/cgroup.h"

namespace octavo {
namespace {

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
  const char* mount;
  const char* controller;
  const char* limit;
  const char* usage;
  const char* cache_key;  // in memory.stat
};

int64_t left_in_group(const MemoryFiles& files) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string& folder : cgroup_folders(files.mount, files.controller)) {
    const int64_t limit = read_number(folder + "/" + files.limit);
    const int64_t usage = read_number(folder + "/" + files.usage);
    if (limit < 0 || usage < 0) continue;
    const int64_t cache =
        std::max<int64_t>(0, read_field(folder + "/memory.stat", files.cache_key));
    least = std::min(least, std::max<int64_t>(0, limit - usage + cache));
  }
  return least;
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t machine_kib = read_field("/proc/meminfo", "MemAvailable:");
  int64_t least = machine_kib < 0 ? std::numeric_limits<int64_t>::max() : machine_kib * 1024;
  for (const MemoryFiles& files :
       {MemoryFiles{"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file "},
        MemoryFiles{"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes",
                    "memory.usage_in_bytes", "total_inactive_file "}}) {
    least = std::min(least, left_in_group(files));
  }
  return least == std::numeric_limits<int64_t>::max() ? 0 : least;
}

}  // namespace octavo
