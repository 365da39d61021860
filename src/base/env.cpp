#include "base/env.h"

#include <cstdlib>

namespace octavo {

std::string env_string(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string octavo_home() {
  std::string home = env_string("OCTAVO_HOME");
  if (home.empty()) {
    const std::string user = env_string("HOME");
    if (user.empty()) return "";
    home = user + "/.cache/octavo";
  }
  while (home.size() > 1 && home.back() == '/') home.pop_back();
  return home;
}

}  // namespace octavo
