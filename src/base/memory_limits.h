// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace octavo {

// The least of what the machine has left, what the control group still allows, where files in the
// page cache count as free, and what limits of the process (`ulimit -v`, `ulimit -d`) leave. 0
// where the system does not say.
int64_t available_memory_bytes();

// The part of control groups, v1 or v2, that are mounted at `mount`; the largest number where they
// set no limit.
int64_t cgroup_memory_left(const std::string& mount);

}  // namespace octavo
