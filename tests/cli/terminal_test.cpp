// The chat in a real (pseudo) terminal: the prompt, Ctrl-C, Ctrl-D. Needs the model:
// scripts/fetch_model.sh fetches it.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace octavo {
namespace {

class Terminal {
 public:
  Terminal() {
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    execl(OCTAVO_BINARY, "octavo", "run", "smollm2", static_cast<char*>(nullptr));
    _exit(127);
  }
  ~Terminal() { close(fd_); }

  void type(const std::string& text) {
    ASSERT_EQ(write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // Reads until what came since the last call ends with `ending`, or holds at least `min_bytes`.
  // False when nothing comes for 30 seconds.
  bool wait_for(const std::string& ending, size_t min_bytes = SIZE_MAX) {
    seen_.clear();
    while (!seen_.ends_with(ending) && seen_.size() < min_bytes) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 30000) <= 0) return false;
      char buffer[4096];
      const ssize_t n = read(fd_, buffer, sizeof(buffer));
      if (n <= 0) return false;
      seen_.append(buffer, static_cast<size_t>(n));
    }
    return true;
  }

  const std::string& seen() const { return seen_; }

  int exit_code() {
    int status = 0;
    while (read(fd_, seen_.data(), seen_.size()) > 0) {
    }
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
};

TEST(CliTerminal, CtrlCStopsAnAnswerAndCtrlDLeaves) {
  Terminal terminal;
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.seen();
  EXPECT_NE(terminal.seen().find("loading ["), std::string::npos);
  EXPECT_NE(terminal.seen().find("/help"), std::string::npos);
  terminal.type("Tell me a very long story about a dragon.\n");
  ASSERT_TRUE(terminal.wait_for("> ", 200)) << terminal.seen();  // the answer is under way
  terminal.type("\x03");
  ASSERT_TRUE(terminal.wait_for("\n> ")) << terminal.seen();
  EXPECT_LT(terminal.seen().size(), 2000u) << "the answer was not stopped";
  terminal.type("\x03");  // at the prompt it starts a new line
  ASSERT_TRUE(terminal.wait_for("\n> ")) << terminal.seen();
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

}  // namespace
}  // namespace octavo
