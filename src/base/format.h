// format("{} of {}", a, b): the only wrapper of {fmt}. Only its light header is seen here; the
// formatting code is compiled once, in format.cpp (Debian has no static library of it).
#pragma once

#include <fmt/core.h>

#include <string>

namespace octavo {

template <typename... Args>
std::string format(fmt::format_string<Args...> pattern, Args&&... args) {
  return fmt::vformat(pattern, fmt::make_format_args(args...));
}

}  // namespace octavo
