// `octavo inspect FILE`: what a model file holds.
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"

namespace octavo::cli {

int run_inspect(int argc, const char* const* argv) {
  std::string path;
  bool json = false;
  Args args("inspect", "Show what a model file holds.", "  octavo inspect model.gguf\n");
  args.positional("FILE", path, "a model file");
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  return fail(unsupported("inspect " + path + ": no format is known yet"));
}

}  // namespace octavo::cli
