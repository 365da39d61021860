// The flags that every command with a model takes.
#pragma once

#include <memory>
#include <string>

#include "cli/args.h"
#include "cli/resolve_model.h"
#include "octavo/model.h"
#include "octavo/status.h"

namespace octavo::cli {

class ModelArgs {
 public:
  // Declares MODEL, --revision, --backend, --dtype, --kv-cache-dtype, --attention-backend,
  // --max-model-len, --threads and --no-repack.
  explicit ModelArgs(Args& args);

  // Loads the model, with a progress bar on a terminal.
  Result<std::unique_ptr<Model>> load() const;

  // The same of another model, by its path.
  Result<std::unique_ptr<Model>> load(const std::string& path) const;

  // The path of MODEL, downloaded where it has to be.
  Result<std::string> resolve() const { return model_.resolve(); }

  const LoadOptions& options() const { return options_; }
  const std::string& model() const { return model_.text(); }
  const std::string& revision() const { return model_.revision(); }

 private:
  ModelArgument model_;
  LoadOptions options_;
  bool no_repack_ = false;
};

// "1,2,3" -> ids; the error names the flag and the offending part.
Result<std::vector<TokenId>> parse_token_ids(const std::string& text,
                                             const char* flag = "--token-ids");

// The argument itself, or all of standard input where it is "-".
Result<std::string> text_or_stdin(const std::string& argument);

}  // namespace octavo::cli
