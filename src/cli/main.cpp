// The command table. Each command lives in a file of its own.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"

namespace octavo::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(int argc, const char* const* argv);
};

constexpr Command kCommands[] = {
    {"run", "answer a prompt, or chat in the terminal", run_run},
    {"serve", "serve a model over HTTP, with the API of vLLM and OpenAI", run_serve},
    {"chat", "chat with a model that a server serves", run_remote_chat},
    {"complete", "let a model that a server serves go on with a text", run_remote_complete},
    {"tokenize", "show the token ids of a text", run_tokenize},
    {"detokenize", "show the text of token ids", run_detokenize},
    {"template", "show the prompt that a chat template makes of messages", run_template},
    {"logits", "write a model's logits to a file, for comparison", run_logits},
    {"eval", "measure perplexity, or how far two models differ", run_eval},
    {"bench", "measure prefill and decode speed", run_bench},
    {"inspect", "show what a model file holds", run_inspect},
    {"pull", "download a model of the hub", run_pull},
    {"list", "show the models in the cache", run_list},
    {"remove", "remove a model from the cache", run_remove},
    {"doctor", "show what this machine has and which kernels run", run_doctor},
};

std::string usage() {
  std::string text = "Usage: octavo COMMAND [ARGUMENTS]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    text += format("  {:<11} {}\n", command.name, command.summary);
  }
  return text +
         format("\noctavo COMMAND --help shows a command's flags. MODEL is {}.\n", kModelHelp);
}

int dispatch(int argc, const char* const* argv) {
  const std::string_view name = argc < 2 ? "" : argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    return print_out(usage()) ? kExitOk : kExitFailed;
  }
  if (name == "--version") {
    return print_out(format("octavo {}\n", OCTAVO_VERSION)) ? kExitOk : kExitFailed;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(argc - 1, argv + 1);
  }
  print_error(name.empty() ? "no command given" : format("unknown command '{}'", name));
  std::fputs(usage().c_str(), stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace octavo::cli

int main(int argc, char** argv) {
  try {
    return octavo::cli::dispatch(argc, argv);
  } catch (const std::bad_alloc&) {
    octavo::cli::print_error("out of memory");
  } catch (const std::exception& error) {
    octavo::cli::print_error(error.what());
  }
  return octavo::cli::kExitFailed;
}
