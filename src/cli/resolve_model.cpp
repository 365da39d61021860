#include "cli/resolve_model.h"

#include <filesystem>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cli/message.h"
#include "cli/progress_bar.h"
#include "hub/hub.h"

namespace octavo::cli {
namespace {

struct Alias {
  std::string_view name;
  std::string_view file;  // below OCTAVO_HOME
  std::string_view how_to_get;
};

constexpr Alias kAliases[] = {
    {"smollm2", "models/SmolLM2-135M-Instruct.Q4_1.gguf", "scripts/fetch_model.sh fetches it"},
};

std::string or_default(const std::string& revision) {
  return revision.empty() ? hub::kDefaultRevision : revision;
}

Result<std::string> pull(hub::Hub& hub, const hub::ModelName& name, const std::string& revision) {
  if (!ProgressBar::wanted()) return hub.pull(name, revision, nullptr);
  ProgressBar bar("downloading");
  return hub.pull(name, revision,
                  [&](int64_t done, int64_t total) { bar.show_bytes(done, total); });
}

Result<std::string> resolve_hub_model(const std::string& model, const std::string& revision) {
  const hub::ModelName name = OCTAVO_TRY(hub::parse_model_name(model));
  const hub::HubSettings settings = OCTAVO_TRY(hub::hub_settings());
  hub::Hub hub(settings);
  auto found = hub.find(name, revision);
  if (found.ok()) return found;
  if (!settings.offline) print_hint(format("{} is not in the cache: downloading it", model));
  auto path = pull(hub, name, revision);
  if (path.ok() || path.status().code() != StatusCode::kNotFound) return path;
  // A mistyped path has the same form.
  return not_found(format("{} ({} is no file here either)", path.status().message(), model));
}

}  // namespace

ModelArgument::ModelArgument(Args& args) {
  args.positional("MODEL", model_, kModelHelp);
  args.option("--revision", revision_, "branch, tag or commit of a model of the hub");
}

Result<std::string> resolve_model(const std::string& model, const std::string& revision) {
  std::error_code error;
  const bool is_path = std::filesystem::exists(model, error);
  if (!is_path && hub::looks_like_model_name(model)) {
    return resolve_hub_model(model, or_default(revision));
  }
  if (!revision.empty()) {
    return invalid_argument(
        format("--revision {}: {} is no model of the hub, and has no revisions", revision, model));
  }
  if (is_path) return model;
  for (const Alias& alias : kAliases) {
    if (alias.name != model) continue;
    const std::string path = format("{}/{}", octavo_home(), alias.file);
    if (std::filesystem::exists(path, error)) return path;
    return not_found(
        format("the model {} is not there yet ({}): {}", model, path, alias.how_to_get));
  }
  std::string known;
  for (const Alias& alias : kAliases) known += format(" {}", alias.name);
  return not_found(
      format("{} is neither a file, nor a known alias, nor org/name of the hub; aliases:{}", model,
             known));
}

Result<std::string> pull_model(const std::string& model, const std::string& revision) {
  const hub::ModelName name = OCTAVO_TRY(hub::parse_model_name(model));
  hub::Hub hub(OCTAVO_TRY(hub::hub_settings()));
  return pull(hub, name, or_default(revision));
}

}  // namespace octavo::cli
