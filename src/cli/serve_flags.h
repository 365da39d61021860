// The flags of the commands that run an engine, `octavo serve` before all: one table of what vLLM's
// users have in their scripts. Each works, or is accepted with a warning that it has no effect, or
// is refused with what to use instead.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/serve_options.h"
#include "octavo/status.h"

namespace octavo::cli {

enum class FlagKind {
  kBool,   // --x, --no-x
  kValue,  // --x VALUE
  kList,   // --x VALUE VALUE …
};

enum class FlagSupport {
  kWorks,
  kNoEffect,  // accepted with a warning
  kRefused,   // unless it is given the value that means "off"
};

struct ServeFlag {
  std::string_view name;   // "--max-num-seqs"
  std::string_view alias;  // "-q", or ""
  FlagKind kind;
  FlagSupport support;
  std::string_view value_name;  // of a refused flag: the value that means "off"
  std::string_view help;        // why, where it does not work
  // Sets the option; called for each value of a list. Booleans are "true" and "false".
  Status (*apply)(ServeOptions& options, const std::string& value);
};

struct FlagGroup {
  std::string_view title;
  std::span<const ServeFlag> flags;
};

// Of `octavo serve` alone, but for chats, which `octavo generate` has too. The others are in
// serve_flag_table.cpp.
std::span<const ServeFlag> observability_flags();
std::span<const ServeFlag> front_end_flags();
std::span<const ServeFlag> chat_flags();

// A command that runs an engine.
struct EngineCommand {
  std::string_view name;              // "octavo serve"
  std::string_view help;              // what --help shows before the flags
  std::span<const FlagGroup> groups;  // in the order of --help
};

extern const EngineCommand kServeCommand;
extern const EngineCommand kGenerateCommand;
extern const EngineCommand kThroughputCommand;

// Reads the arguments after the command's name, and first the file that --config names. Warnings
// are printed; errors name the flag.
Result<ServeOptions> parse_engine_flags(const EngineCommand& command,
                                        const std::vector<std::string>& arguments);

std::string engine_help(const EngineCommand& command);

// docs/flags.md.
std::string serve_flags_markdown();

}  // namespace octavo::cli
