// `octavo pull`: downloads a model of the hub into the cache and prints where it is.
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/resolve_model.h"

namespace octavo::cli {

int run_pull(int argc, const char* const* argv) {
  std::string model;
  std::string revision;
  Args args(
      "pull",
      "Download a model of the Hugging Face hub and print its path. What is there already is\n"
      "checked against the hub; a download that broke off goes on.",
      "  octavo pull HuggingFaceTB/SmolLM2-135M-Instruct\n"
      "  octavo pull bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0\n");
  args.positional("MODEL", model, "org/name, org/name:quantisation or org/name:file");
  args.option("--revision", revision, "branch, tag or commit; the default is main");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto path = pull_model(model, revision);
  if (!path.ok()) return fail(path.status());
  return print_out(*path + "\n") ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
