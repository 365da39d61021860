// format("{} of {}", a, b): the only wrapper of {fmt}. Only its light header is seen here; the
// formatting code is compiled once, in format.cpp (Debian has no static library of it).
#pragma once

#include <fmt/core.h>

#include <string>

namespace octavo {

// An object and not a function: a call with std::string arguments would also find std::format,
// where the standard library has it, and be ambiguous.
struct Format {
  template <typename... Args>
  std::string operator()(fmt::format_string<Args...> pattern, Args&&... args) const {
    return fmt::vformat(pattern, fmt::make_format_args(args...));
  }
};
inline constexpr Format format;

}  // namespace octavo
