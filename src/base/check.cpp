#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace octavo {

void check_failed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "octavo: bug: %s:%d: %s does not hold\n", file, line, expression);
  std::abort();
}

}  // namespace octavo
