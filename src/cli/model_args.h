// The flags that every command with a model takes, and how a MODEL argument becomes a file.
#pragma once

#include <memory>
#include <string>

#include "cli/args.h"
#include "octavo/model.h"
#include "octavo/status.h"

namespace octavo::cli {

inline constexpr const char* kModelHelp = "a .gguf file, a model folder, or an alias (smollm2)";

class ModelArgs {
 public:
  // Declares MODEL, --backend, --dtype, --kv-cache-dtype, --attention-backend,
  // --max-model-len and --threads.
  explicit ModelArgs(Args& args);

  // Loads the model, with a progress bar on a terminal.
  Result<std::unique_ptr<Model>> load() const;

  const std::string& model() const { return model_; }

 private:
  std::string model_;
  LoadOptions options_;
};

// A path that exists is taken as it is; otherwise an alias names a file below OCTAVO_HOME. The
// error says what was looked for and how to get it.
Result<std::string> resolve_model(const std::string& model);

// "1,2,3" -> ids; the error names the flag and the offending part.
Result<std::vector<TokenId>> parse_token_ids(const std::string& text,
                                             const char* flag = "--token-ids");

// The argument itself, or all of standard input where it is "-".
Result<std::string> text_or_stdin(const std::string& argument);

}  // namespace octavo::cli
