// Linux control groups: where the limits are that a container puts on this process.
#pragma once

#include <string>
#include <vector>

namespace octavo {

// The folders below `mount` of this process's group for `controller` ("": the v2 hierarchy) and of
// its parents, up to the mount itself; inside a container only that exists.
std::vector<std::string> cgroup_folders(const std::string& mount, const std::string& controller);

}  // namespace octavo
