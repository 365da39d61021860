// `octavo remove`: removes a model of the hub from the cache, all revisions and files of it.
#include <unistd.h>

#include <cstdio>

#include "base/check.h"
#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/message.h"
#include "hub/hub.h"

namespace octavo::cli {
namespace {

Result<std::string> repo_of(const std::string& model) {
  const hub::ModelName name = OCTAVO_TRY(hub::parse_model_name(model));
  if (name.file.empty()) return name.repo;
  return invalid_argument(format("{}: a model is removed as a whole; write {}", model, name.repo));
}

// Whether the user says yes.
bool confirmed(const std::string& repo) {
  std::fprintf(stderr, "Remove %s from the cache? [y/N] ", repo.c_str());
  LineReader reader;
  std::string line;
  return reader.next(line) == ReadResult::kLine && (line == "y" || line == "Y" || line == "yes");
}

}  // namespace

int run_remove(int argc, const char* const* argv) {
  std::string model;
  bool yes = false;
  Args args("remove", "Remove a model of the Hugging Face hub from the cache.",
            "  octavo remove org/name\n  octavo remove org/name --yes\n");
  args.positional("MODEL", model, "org/name");
  args.flag("--yes", yes, "do not ask");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto repo = repo_of(model);
  if (!repo.ok()) return fail(repo.status());
  auto settings = hub::hub_settings();
  if (!settings.ok()) return fail(settings.status());
  const hub::Hub hub(std::move(settings).value());
  const Status there = hub.cache().check_has(*repo);
  if (!there.ok()) return fail(there);
  if (!yes && isatty(STDIN_FILENO) == 0) {
    print_error("there is no terminal to ask on: give --yes");
    return kExitUsage;
  }
  if (!yes && !confirmed(*repo)) return kExitFailed;
  const auto freed = hub.cache().remove(*repo);
  if (!freed.ok()) return fail(freed.status());
  return print_out(format("removed {}: {} MB\n", *repo, *freed / 1000000)) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
