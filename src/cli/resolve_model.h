// How a MODEL argument becomes a path: a file or folder, an alias, or a model of the hub, which is
// downloaded where the cache lacks it.
#pragma once

#include <string>

#include "cli/args.h"
#include "octavo/status.h"

namespace octavo::cli {

inline constexpr const char* kModelHelp =
    "a .gguf file, a model folder, an alias (smollm2), or org/name[:quantisation] of the hub";

// A path that exists is taken as it is, then an alias, then a name of the hub; one of those that is
// whole in the cache is used without asking the hub. `revision`: "" for the default; only the hub
// has any. The error says what was looked for and how to get it.
Result<std::string> resolve_model(const std::string& model, const std::string& revision = "");

// Asks the hub also where the model is in the cache. `model` is a name of the hub.
Result<std::string> pull_model(const std::string& model, const std::string& revision);

// MODEL and --revision of a command.
class ModelArgument {
 public:
  explicit ModelArgument(Args& args);
  ModelArgument(const ModelArgument&) = delete;
  ModelArgument& operator=(const ModelArgument&) = delete;

  const std::string& text() const { return model_; }
  const std::string& revision() const { return revision_; }
  Result<std::string> resolve() const { return resolve_model(model_, revision_); }

 private:
  std::string model_;
  std::string revision_;
};

}  // namespace octavo::cli
