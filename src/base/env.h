// Environment variables: the only place that reads them. Known ones: OCTAVO_HOME (where models are
// kept), OCTAVO_LOG (log level), OCTAVO_KERNELS (forces a CPU kernel set); docs/env.md has the
// list.
#pragma once

#include <string>

namespace octavo {

// The variable's value, or "" where it is not set.
std::string env_string(const char* name);

// ${OCTAVO_HOME:-$HOME/.cache/octavo}, without a trailing slash; "" where neither is set.
std::string octavo_home();

}  // namespace octavo
