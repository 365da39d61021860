#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "cli/args.h"
#include "cli/generate_args.h"
#include "cli/message.h"

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

int for_each_typed_line(const std::function<bool(const std::string& line)>& on_line) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  LineReader reader;
  std::string line;
  while (!terminal || print_out("> ")) {
    switch (reader.next(line)) {
      case ReadResult::kError:
        print_error(format("cannot read standard input: {}", std::strerror(errno)));
        return kExitFailed;
      case ReadResult::kEnd:
        return !terminal || print_out("\n") ? kExitOk : kExitFailed;
      case ReadResult::kInterrupted:
        InterruptGuard::clear();
        if (!print_out("\n")) return kExitFailed;
        break;
      case ReadResult::kLine:
        if (!line.empty() && !on_line(line)) return kExitFailed;
    }
  }
  return kExitFailed;
}

}  // namespace octavo::cli
