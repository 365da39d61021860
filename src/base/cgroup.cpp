#include "base/cgroup.h"

#include <fstream>

namespace octavo {
namespace {

std::string own_path(const std::string& controller) {
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

}  // namespace

std::vector<std::string> cgroup_folders(const std::string& mount, const std::string& controller) {
  std::vector<std::string> folders;
  std::string path = own_path(controller);
  while (!path.empty() && path != "/") {
    folders.push_back(mount + path);
    const size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  folders.push_back(mount);
  return folders;
}

}  // namespace octavo
