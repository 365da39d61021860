// The chat in the terminal. Ctrl-C stops an answer, Ctrl-D leaves; the KV cache of earlier turns is
// reused by the model.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/format.h"
#include "cli/generate_args.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

constexpr const char* kHelp =
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/system TEXT    set the system message and start anew; without TEXT: the model's own\n"
    "Ctrl-C          stop the answer\n"
    "Ctrl-D          leave\n";

enum class ReadResult { kLine, kEnd, kInterrupted, kError };

// Lines of standard input, noticing Ctrl-C while waiting.
class LineReader {
 public:
  ReadResult next(std::string& line) {
    while (true) {
      const size_t newline = pending_.find('\n');
      if (newline != std::string::npos) {
        line = pending_.substr(0, newline);
        pending_.erase(0, newline + 1);
        return ReadResult::kLine;
      }
      // In steps: a signal that comes just before poll() would otherwise wait for the next line.
      pollfd input{STDIN_FILENO, POLLIN, 0};
      constexpr int kStepMs = 100;
      const bool ready = poll(&input, 1, kStepMs) > 0;
      if (InterruptGuard::interrupted()) {
        pending_.clear();
        return ReadResult::kInterrupted;
      }
      if (!ready) continue;
      char buffer[4096];
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

 private:
  std::string pending_;
};

class Chat {
 public:
  Chat(Model& model, const SamplingParams& sampling, const std::string& system)
      : model_(model), sampling_(sampling), conversation_(system) {}

  int run() {
    const bool terminal = isatty(STDIN_FILENO) != 0;
    if (terminal) print_hint("/help shows what can be typed; Ctrl-D leaves");
    InterruptGuard guard;
    std::string line;
    while (true) {
      if (terminal) print_out("> ");
      const ReadResult result = reader_.next(line);
      if (result == ReadResult::kError) {
        print_error(format("cannot read standard input: {}", std::strerror(errno)));
        return kExitFailed;
      }
      if (result == ReadResult::kEnd) {
        if (terminal) print_out("\n");
        return kExitOk;
      }
      if (result == ReadResult::kInterrupted) {
        InterruptGuard::clear();
        print_out("\n");
        continue;
      }
      if (line.empty()) continue;
      if (line[0] == '/') {
        command(line);
      } else if (!answer(line)) {
        return kExitFailed;  // nobody reads any more
      }
    }
  }

 private:
  void command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "/help") {
      print_out(kHelp);
    } else if (name == "/reset") {
      conversation_.reset();
    } else if (name == "/system") {
      conversation_.set_system(space == std::string::npos ? "" : line.substr(space + 1));
    } else {
      print_hint(format("{} is not a command; /help lists them", name));
    }
  }

  // False when standard output is closed.
  bool answer(const std::string& text) {
    conversation_.add("user", text);
    auto prompt = conversation_.encode(*model_.tokenizer());
    if (!prompt.ok()) return give_up(prompt.status());
    Request request;
    request.prompt_token_ids = std::move(*prompt);
    request.sampling = sampling_;
    bool writable = true;
    const auto generation = model_.generate(request, [&](std::string_view delta) {
      writable = print_out(delta);
      return writable && !InterruptGuard::interrupted();
    });
    if (!generation.ok()) return give_up(generation.status());
    InterruptGuard::clear();
    print_out("\n");
    if (generation->finish_reason == FinishReason::kLength) {
      print_hint("(the answer was cut: --max-tokens or the context is used up)");
    }
    conversation_.add("assistant", generation->text);
    return writable;
  }

  // The turn that failed is forgotten; the conversation goes on.
  bool give_up(const Status& status) {
    print_error(status.message());
    conversation_.drop_last();
    return true;
  }

  Model& model_;
  SamplingParams sampling_;
  Conversation conversation_;
  LineReader reader_;
};

}  // namespace

int run_chat(Model& model, const SamplingParams& sampling, const std::string& system) {
  return Chat(model, sampling, system).run();
}

}  // namespace octavo::cli
