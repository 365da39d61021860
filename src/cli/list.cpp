// `octavo list`: the models of the hub that are in the cache.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "hub/hub.h"

namespace octavo::cli {
namespace {

Result<std::vector<hub::CachedModel>> cached_models() {
  const hub::Hub hub(OCTAVO_TRY(hub::hub_settings()));
  return hub.cache().list();
}

std::string as_json(const std::vector<hub::CachedModel>& models) {
  JsonArray rows;
  for (const hub::CachedModel& model : models) {
    JsonArray revisions;
    for (const std::string& revision : model.revisions) revisions.emplace_back(revision);
    rows.push_back(JsonObject{{"name", model.repo},
                              {"revisions", std::move(revisions)},
                              {"commit", model.commit},
                              {"size_bytes", model.size_bytes},
                              {"path", model.path}});
  }
  return dump_json(rows, 2) + "\n";
}

std::string as_table(const std::vector<hub::CachedModel>& models) {
  size_t width = 4;
  for (const hub::CachedModel& model : models) width = std::max(width, model.repo.size());
  std::string text = format("{:<{}}  {:<16}  {:>9}  PATH\n", "NAME", width, "REVISION", "SIZE");
  for (const hub::CachedModel& model : models) {
    const std::string revision =
        model.revisions.empty() ? model.commit.substr(0, 12) : model.revisions[0];
    text += format("{:<{}}  {:<16}  {:>6.1f} MB  {}\n", model.repo, width, revision,
                   static_cast<double>(model.size_bytes) / 1e6, model.path);
  }
  return text;
}

}  // namespace

int run_list(int argc, const char* const* argv) {
  bool json = false;
  Args args("list", "Show the models of the Hugging Face hub that are in the cache.",
            "  octavo list\n  octavo list --json\n");
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto models = cached_models();
  if (!models.ok()) return fail(models.status());
  return print_out(json ? as_json(*models) : as_table(*models)) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
