#include "cli/message.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/format.h"
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
  if (std::ferror(stdout) != 0) return false;
  errno = 0;
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0 && written == text.size()) return true;
  print_error(format("cannot write to standard output: {}", std::strerror(errno)));
  return false;
}

}  // namespace octavo::cli
