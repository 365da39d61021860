#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "cli/generate_args.h"

namespace octavo::cli {

ReadResult LineReader::next(std::string& line) {
  while (true) {
    const size_t newline = pending_.find('\n', searched_);
    if (newline != std::string::npos) {
      line = pending_.substr(begin_, newline - begin_);
      begin_ = searched_ = newline + 1;
      return ReadResult::kLine;
    }
    pending_.erase(0, begin_);
    begin_ = 0;
    searched_ = pending_.size();
    // In steps: a signal that comes just before poll() would otherwise wait for the next line.
    pollfd input{STDIN_FILENO, POLLIN, 0};
    constexpr int kStepMs = 100;
    const bool ready = poll(&input, 1, kStepMs) > 0;
    if (InterruptGuard::interrupted()) {
      pending_.clear();
      searched_ = 0;
      return ReadResult::kInterrupted;
    }
    if (!ready) continue;
    char buffer[65536];
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (n > 0) {
      pending_.append(buffer, static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0) {
      return ReadResult::kError;
    } else if (pending_.empty()) {
      return ReadResult::kEnd;
    } else {
      pending_ += '\n';  // a last line without its end
    }
  }
}

}  // namespace octavo::cli
