// Where tests put files: a folder of this process's own, gone when it ends.
#pragma once

#include <string>

namespace octavo::testing {

// The path of `name` in a folder of the running test's own.
std::string temp_path(const std::string& name);

}  // namespace octavo::testing
