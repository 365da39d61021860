// How a command that runs an engine begins: flags and files are read, the model is found.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/serve_flags.h"

namespace octavo::cli {

struct EngineSetup {
  ServeOptions options;  // with what flags leave to the model
  std::string path;      // of the model
};

// For max_num_queued_…, where what is submitted has a bound of its own.
inline constexpr int64_t kUnboundedQueue = int64_t{1} << 40;

// Or the exit code, after all that there is to say has been printed. `check` may be null: it sees
// the options before a model is looked for, and says what contradicts itself in them.
std::variant<EngineSetup, int> set_up_engine(const EngineCommand& command,
                                             const std::vector<std::string>& arguments,
                                             Status (*check)(const ServeOptions& options));

// Loads the model, with a progress bar on a terminal.
Result<std::unique_ptr<AsyncEngine>> create_engine(const std::string& path, EngineConfig config);

}  // namespace octavo::cli
