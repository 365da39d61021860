// `octavo chat` and `octavo complete`: ask a server that runs, ours or another with OpenAI's API.
#include <unistd.h>

#include <optional>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/generate_args.h"
#include "cli/line_reader.h"
#include "cli/message.h"
#include "cli/remote_client.h"

namespace octavo::cli {
namespace {

struct RemoteOptions {
  std::string url = "http://localhost:8000/v1";
  std::string model;
  std::string api_key;
  std::string system_prompt;  // of chat
  std::string quick;
  std::optional<int64_t> max_tokens;
};

void declare(Args& args, RemoteOptions& options) {
  args.option("--url", options.url, "the server");
  args.option("--model-name", options.model, "the model; the first that is served where not given");
  args.option("--api-key", options.api_key, "the server's key; OPENAI_API_KEY where not given");
  args.option("--max-tokens", options.max_tokens, "at most so many tokens in an answer");
}

class Session {
 public:
  explicit Session(const RemoteOptions& options)
      : options_(options), client_(options.url, options.api_key) {}

  Status connect() {
    model_ = options_.model;
    if (model_.empty()) model_ = OCTAVO_TRY(client_.first_model());
    return {};
  }

  // Prints the answer as it comes and returns it.
  Result<std::string> ask(const char* path, JsonObject body) {
    body["model"] = model_;
    if (options_.max_tokens) body["max_tokens"] = *options_.max_tokens;
    auto text = client_.stream(
        path, std::move(body), [](std::string_view piece) { return print_out(piece); },
        [] { return !InterruptGuard::interrupted(); });
    InterruptGuard::clear();
    if (text.ok() && !print_out("\n")) return internal_error("cannot write standard output");
    return text;
  }

  const std::string& model() const { return model_; }

 private:
  const RemoteOptions& options_;
  RemoteClient client_;
  std::string model_;
};

// Whether to go on after an answer: an error of the server may pass, but one of a pipe counts.
bool report(const Result<std::string>& answer) {
  if (answer.ok()) return true;
  print_error(answer.status().message());
  return answer.status().code() != StatusCode::kInternal && isatty(STDIN_FILENO) != 0;
}

int chat(const RemoteOptions& options) {
  const InterruptGuard guard;
  Session session(options);
  const Status connected = session.connect();
  if (!connected.ok()) return fail(connected);
  JsonArray messages;
  const auto add = [&](const char* role, const std::string& content) {
    messages.push_back(JsonObject{{"role", role}, {"content", content}});
  };
  if (!options.system_prompt.empty()) add("system", options.system_prompt);
  const auto say = [&](const std::string& text) {
    add("user", text);
    const auto answer = session.ask("/chat/completions", {{"messages", messages}});
    if (answer.ok()) {
      add("assistant", *answer);
    } else {
      messages.pop_back();
    }
    return report(answer);
  };
  if (!options.quick.empty()) return say(options.quick) ? kExitOk : kExitFailed;
  if (isatty(STDIN_FILENO) != 0) {
    print_hint(format("chatting with {}; Ctrl-C stops an answer, Ctrl-D leaves", session.model()));
  }
  return for_each_typed_line(say);
}

int complete(const RemoteOptions& options) {
  const InterruptGuard guard;
  Session session(options);
  const Status connected = session.connect();
  if (!connected.ok()) return fail(connected);
  const auto go_on = [&](const std::string& text) {
    return report(session.ask("/completions", {{"prompt", text}}));
  };
  if (!options.quick.empty()) return go_on(options.quick) ? kExitOk : kExitFailed;
  if (isatty(STDIN_FILENO) != 0) {
    print_hint(format("{} goes on with what you type; Ctrl-D leaves", session.model()));
  }
  return for_each_typed_line(go_on);
}

}  // namespace

int run_remote_chat(int argc, const char* const* argv) {
  RemoteOptions options;
  Args args("chat", "Chat with a model that a server serves.",
            "  octavo chat --url http://localhost:8000/v1\n"
            "  octavo chat --system-prompt 'Be brief.' -q 'Why is the sky blue?'\n");
  declare(args, options);
  args.option("--system-prompt", options.system_prompt, "what the model is told first");
  args.option("-q,--quick", options.quick, "send this one message, print the answer, and end");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (options.api_key.empty()) options.api_key = env_string("OPENAI_API_KEY");
  return chat(options);
}

int run_remote_complete(int argc, const char* const* argv) {
  RemoteOptions options;
  Args args("complete", "Let a model that a server serves go on with a text.",
            "  octavo complete --url http://localhost:8000/v1 --max-tokens 64\n"
            "  octavo complete -q 'The capital of France is'\n");
  declare(args, options);
  args.option("-q,--quick", options.quick, "send this one prompt, print the answer, and end");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (options.api_key.empty()) options.api_key = env_string("OPENAI_API_KEY");
  return complete(options);
}

}  // namespace octavo::cli
