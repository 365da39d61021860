// Monotonic time in seconds since an arbitrary start.
#pragma once

#include <chrono>

namespace octavo {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace octavo
