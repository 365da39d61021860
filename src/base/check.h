// OCTAVO_CHECK: a bug in octavo ends the process with file, line and expression; it is never used
// for input. OCTAVO_DCHECK is the same in debug builds only. OCTAVO_TRY: the one control-flow
// macro.
#pragma once

#include <utility>

#include "octavo/status.h"

namespace octavo {

[[noreturn]] void check_failed(const char* file, int line, const char* expression);

namespace check_detail {
inline Status take_status(Status&& s) {
  return std::move(s);
}
template <typename T>
Status take_status(Result<T>&& r) {
  return r.status();
}
inline void take_value(Status&&) {}
template <typename T>
T take_value(Result<T>&& r) {
  return std::move(r).value();
}
}  // namespace check_detail

}  // namespace octavo

#define OCTAVO_CHECK(expression)                               \
  do {                                                         \
    if (!(expression)) [[unlikely]]                            \
      ::octavo::check_failed(__FILE__, __LINE__, #expression); \
  } while (false)

#ifdef NDEBUG
#define OCTAVO_DCHECK(expression) \
  do {                            \
  } while (false)
#else
#define OCTAVO_DCHECK(expression) OCTAVO_CHECK(expression)
#endif

// Returns the error of a Status or Result from the enclosing function, else yields the value:
//   auto file = OCTAVO_TRY(MmapFile::open(path));
// A GNU statement expression (GCC, clang, nvcc's host compiler), so that it works inside an
// expression.
#define OCTAVO_TRY(expression) OCTAVO_TRY_UNIQUE(expression, __COUNTER__)

// The counter gives the variable a name of its own, so that one OCTAVO_TRY may stand inside
// another.
#define OCTAVO_TRY_UNIQUE(expression, counter) OCTAVO_TRY_NAMED(expression, counter)
#define OCTAVO_TRY_NAMED(expression, counter)                                      \
  __extension__({                                                                  \
    auto octavo_try_##counter = (expression);                                      \
    if (!octavo_try_##counter.ok()) [[unlikely]]                                   \
      return ::octavo::check_detail::take_status(std::move(octavo_try_##counter)); \
    ::octavo::check_detail::take_value(std::move(octavo_try_##counter));           \
  })
