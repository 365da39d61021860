// Cuts ExecContext::workspace into arrays. A call's shared arrays come first, then each thread's
// own part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace octavo::backends::cpu {

inline constexpr int64_t kCacheLine = 64;

inline int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class Arena {
 public:
  Arena(std::byte* data, int64_t size_bytes) : next_(data), left_(size_bytes) {}

  // Room for `count` values, aligned to a cache line. Running out is a bug in workspace_bytes.
  template <typename T>
  T* take(int64_t count) {
    const int64_t bytes = round_up(count * static_cast<int64_t>(sizeof(T)), kCacheLine);
    OCTAVO_CHECK(bytes <= left_);
    T* result = reinterpret_cast<T*>(next_);
    next_ += bytes;
    left_ -= bytes;
    return result;
  }

  int64_t left_bytes() const { return left_; }

 private:
  std::byte* next_;
  int64_t left_;
};

}  // namespace octavo::backends::cpu
