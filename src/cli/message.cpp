#include "cli/message.h"

#include <cstdio>

#include "base/utf8.h"
#include "cli/args.h"

namespace octavo::cli {

void print_error(std::string_view message) {
  std::fprintf(stderr, "octavo: error: %s\n", printable(message).c_str());
}

void print_hint(std::string_view message) {
  std::fprintf(stderr, "octavo: %s\n", printable(message).c_str());
}

int fail(const Status& status) {
  print_error(status.message());
  return kExitFailed;
}

bool print_out(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0 && written == text.size();
}

}  // namespace octavo::cli
