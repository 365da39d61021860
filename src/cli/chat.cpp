// The chat in the terminal. Ctrl-C stops an answer, Ctrl-D leaves; the KV cache of earlier turns is
// reused by the model.
#include <unistd.h>

#include "base/format.h"
#include "cli/generate_args.h"
#include "cli/line_reader.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

constexpr const char* kHelp =
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/system TEXT    set the system message and start anew; without TEXT: the model's own\n"
    "Ctrl-C          stop the answer\n"
    "Ctrl-D          leave\n";

constexpr const char* kFullContext = "(the context is full; /reset forgets the conversation)";

class Chat {
 public:
  Chat(Model& model, const SamplingParams& sampling, const std::string& system)
      : model_(model), sampling_(sampling), conversation_(system) {}

  int run() {
    if (isatty(STDIN_FILENO) != 0) print_hint("/help shows what can be typed; Ctrl-D leaves");
    const InterruptGuard guard;
    return for_each_typed_line(
        [this](const std::string& line) { return line[0] == '/' ? command(line) : answer(line); });
  }

 private:
  // False when standard output is closed; so is answer().
  bool command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "/help") return print_out(kHelp);
    if (name == "/reset") {
      conversation_.reset();
    } else if (name == "/system") {
      conversation_.set_system(space == std::string::npos ? "" : line.substr(space + 1));
    } else {
      constexpr size_t kMostShown = 40;  // of what may be a pasted path or page
      print_hint(format("{}{} is not a command; /help lists them", name.substr(0, kMostShown),
                        name.size() > kMostShown ? "…" : ""));
    }
    return true;
  }

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
    const auto prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
    if (!generation.ok()) {
      give_up(generation.status());
      if (prompt_tokens >= model_.info().max_model_len) print_hint(kFullContext);
      return true;
    }
    InterruptGuard::clear();
    if (!writable || !print_out("\n")) return false;
    if (generation->finish_reason == FinishReason::kLength) {
      const int64_t tokens = prompt_tokens + generation->usage.completion_tokens;
      print_hint(tokens < model_.info().max_model_len ? "(the answer was cut at --max-tokens)"
                                                      : kFullContext);
    }
    conversation_.add("assistant", generation->text);
    return true;
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
};

}  // namespace

int run_chat(Model& model, const SamplingParams& sampling, const std::string& system) {
  return Chat(model, sampling, system).run();
}

}  // namespace octavo::cli
