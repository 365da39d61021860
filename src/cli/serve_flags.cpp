#include "cli/serve_flags.h"

#include <algorithm>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cli/config_file.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

// A flag as it was written: what it names, and what stands in it. The analyser loses what the
// variant of a Result<FlagUse> holds.
struct FlagUse {  // NOLINT(clang-analyzer-core.uninitialized.Assign)
  const ServeFlag* flag = nullptr;
  bool negated = false;                     // --no-x
  std::string member;                       // of --x.member
  std::optional<std::string> inline_value;  // of --x=value
};

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

const ServeFlag* find_flag(const EngineCommand& command, std::string_view name) {
  for (const FlagGroup& group : command.groups) {
    for (const ServeFlag& flag : group.flags) {
      if (flag.name == name || (!flag.alias.empty() && flag.alias == name)) return &flag;
    }
  }
  return nullptr;
}

Status unknown_flag(const EngineCommand& command, std::string_view name) {
  if (find_flag(kServeCommand, name) != nullptr) {
    return invalid_argument(
        format("{} has no flag {}: it is one of {}", command.name, name, kServeCommand.name));
  }
  const ServeFlag* nearest = nullptr;
  size_t least = 4;  // more changes than that are another word
  for (const FlagGroup& group : command.groups) {
    for (const ServeFlag& flag : group.flags) {
      const size_t distance = edit_distance(name, flag.name);
      if (distance >= least) continue;
      least = distance;
      nearest = &flag;
    }
  }
  return invalid_argument(
      format("unknown flag {}{}", name,
             nearest == nullptr ? "" : format("; did you mean {}?", nearest->name)));
}

Result<FlagUse> parse_name(const EngineCommand& command, const std::string& argument) {
  FlagUse use;
  const size_t equals = argument.find('=');
  std::string name = argument.substr(0, equals);
  if (equals != std::string::npos) use.inline_value = argument.substr(equals + 1);
  const size_t dot = name.find('.');
  if (dot != std::string::npos) {
    use.member = name.substr(dot + 1);
    name.resize(dot);
  }
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  use.flag = find_flag(command, name);
  if (use.flag == nullptr && name.starts_with("--no-")) {
    use.flag = find_flag(command, "--" + name.substr(5));
    if (use.flag != nullptr && use.flag->kind != FlagKind::kBool) use.flag = nullptr;
    use.negated = use.flag != nullptr;
  }
  if (use.flag == nullptr) return unknown_flag(command, name);
  return use;
}

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && (argument[1] < '0' || argument[1] > '9');
}

class Parser {
 public:
  Status apply(const FlagUse& use, const std::vector<std::string>& values) {
    const ServeFlag& flag = *use.flag;
    const bool is_off = flag.kind == FlagKind::kBool
                            ? values[0] == "false"
                            : values.size() == 1 && values[0] == flag.value_name;
    if (flag.support == FlagSupport::kRefused) {
      if (is_off) return {};
      return unsupported(format("{} is not supported: {}", flag.name, flag.help));
    }
    if (flag.support == FlagSupport::kNoEffect) {
      print_hint(format("warning: {} has no effect{}{}", flag.name, flag.help.empty() ? "" : ": ",
                        flag.help));
      return {};
    }
    if (flag.kind == FlagKind::kList) forget_list(flag);
    for (const std::string& value : values) {
      const Status status = flag.apply(options_, member_value(use, value));
      if (status.ok()) continue;
      return {status.code(), format("{} {}: {}", flag.name, value, status.message())};
    }
    return {};
  }

  // What comes now was given on the command line.
  void end_of_config() { in_config_ = false; }

  ServeOptions take() { return std::move(options_); }

 private:
  static std::string member_value(const FlagUse& use, const std::string& value) {
    if (use.member.empty()) return value;
    auto parsed = parse_json(value, "");
    return dump_json(JsonObject{{use.member, parsed.ok() ? std::move(*parsed) : Json(value)}});
  }

  // A list on the command line replaces what --config had; given there twice, it grows.
  void forget_list(const ServeFlag& flag) {
    if (in_config_ || std::find(begun_.begin(), begun_.end(), &flag) != begun_.end()) return;
    begun_.push_back(&flag);
    if (flag.name == "--served-model-name") options_.server.served_model_names.clear();
    if (flag.name == "--api-key") options_.server.api_keys.clear();
  }

  ServeOptions options_;
  bool in_config_ = true;
  std::vector<const ServeFlag*> begun_;  // lists
};

Status apply_config_entry(const EngineCommand& command, Parser& parser, const std::string& path,
                          const ConfigEntry& entry) {
  const auto use = parse_name(command, "--" + entry.key);
  const auto of_server = parse_name(kServeCommand, "--" + entry.key);
  const bool works = use.ok() && use->flag->support != FlagSupport::kRefused;
  if (!works && of_server.ok() && (!use.ok() || of_server->flag != use->flag)) {
    // One file serves all commands.
    print_hint(format("warning: {}: {} has no effect on {}", path, entry.key, command.name));
    return {};
  }
  if (!use.ok()) {
    return invalid_argument(format("{}: key {}: {}", path, entry.key, use.status().message()));
  }
  if (entry.values.empty()) return {};
  const FlagKind kind = use->flag->kind;
  if (kind == FlagKind::kBool && entry.values[0] != "true" && entry.values[0] != "false") {
    return invalid_argument(format("{}: {} must be true or false", path, entry.key));
  }
  if (kind != FlagKind::kList && entry.values.size() != 1) {
    return invalid_argument(format("{}: {} takes one value", path, entry.key));
  }
  const Status status = parser.apply(*use, entry.values);
  if (status.ok()) return {};
  return {status.code(), format("{}: {}", path, status.message())};
}

// A flag and its values, from position `i` on, which is moved behind them.
Result<std::vector<std::string>> take_values(const FlagUse& use,
                                             const std::vector<std::string>& arguments, size_t& i) {
  const ServeFlag& flag = *use.flag;
  std::vector<std::string> values;
  if (flag.kind == FlagKind::kBool) {
    values.push_back(use.inline_value.value_or(use.negated ? "false" : "true"));
    return values;
  }
  if (use.inline_value) {
    values.push_back(*use.inline_value);
    return values;
  }
  const size_t most = flag.kind == FlagKind::kList ? arguments.size() : 1;
  while (values.size() < most && i < arguments.size() && !is_flag(arguments[i])) {
    values.push_back(arguments[i++]);
  }
  if (values.empty()) return invalid_argument(format("{} needs a value", flag.name));
  return values;
}

std::string flag_title(const ServeFlag& flag) {
  std::string title(flag.name);
  if (!flag.alias.empty()) title = format("{}, {}", flag.alias, flag.name);
  if (flag.kind == FlagKind::kBool) return title;
  const bool shows_value = flag.support != FlagSupport::kRefused && !flag.value_name.empty();
  title += ' ';
  title += shows_value ? flag.value_name : std::string_view("VALUE");
  if (flag.kind == FlagKind::kList) title += " …";
  return title;
}

std::string flag_help(const ServeFlag& flag) {
  if (flag.support == FlagSupport::kWorks) return std::string(flag.help);
  const std::string why = flag.help.empty() ? "" : format(": {}", flag.help);
  return (flag.support == FlagSupport::kNoEffect ? "no effect" : "not supported") + why;
}

}  // namespace

Result<ServeOptions> parse_engine_flags(const EngineCommand& command,
                                        const std::vector<std::string>& arguments) {
  struct Given {
    FlagUse use;
    std::vector<std::string> values;
  };
  std::vector<Given> given;
  std::optional<std::string> model;
  std::string config_file;
  for (size_t i = 0; i < arguments.size();) {
    const std::string& argument = arguments[i++];
    if (!is_flag(argument)) {
      if (model) return invalid_argument(format("one MODEL, not also '{}'", argument));
      model = argument;
      continue;
    }
    FlagUse use = OCTAVO_TRY(parse_name(command, argument));
    auto values = OCTAVO_TRY(take_values(use, arguments, i));
    if (use.flag->name == "--config") config_file = values[0];
    given.push_back({std::move(use), std::move(values)});
  }
  Parser parser;
  if (!config_file.empty()) {
    const std::vector<ConfigEntry> entries = OCTAVO_TRY(read_config_file(config_file));
    for (const ConfigEntry& entry : entries) {
      OCTAVO_TRY(apply_config_entry(command, parser, config_file, entry));
    }
  }
  parser.end_of_config();
  for (const Given& one : given) OCTAVO_TRY(parser.apply(one.use, one.values));
  ServeOptions options = parser.take();
  if (model) options.model = *model;
  if (options.model.empty()) return invalid_argument("MODEL is missing");
  const std::string key = env_string("VLLM_API_KEY");
  if (!key.empty() && options.server.api_keys.empty()) options.server.api_keys.push_back(key);
  return options;
}

std::string engine_help(const EngineCommand& command) {
  std::string text = format(
      "{}\n--x VALUE and --x=VALUE are the same, and so are --x_y and --x-y; --no-x turns a switch "
      "off.\n",
      command.help);
  for (const FlagGroup& group : command.groups) {
    text += format("\n{}:\n", group.title);
    for (const ServeFlag& flag : group.flags) {
      if (find_flag(command, flag.name) != &flag) continue;  // the command has its own
      text += format("  {:<38} {}\n", flag_title(flag), flag_help(flag));
    }
  }
  return text;
}

std::string serve_flags_markdown() {
  std::string text =
      "# Flags of `octavo serve`\n\n"
      "Made from the tables in `src/cli` by `octavo serve --help-markdown`; a test compares the\n"
      "two. Flags are spelled as vLLM spells them. A flag that is not supported is an error at\n"
      "start, unless it is given the value that turns it off; one without effect is a warning.\n";
  for (const FlagGroup& group : kServeCommand.groups) {
    text += format("\n## {}\n\n| flag | |\n|---|---|\n", group.title);
    for (const ServeFlag& flag : group.flags) {
      std::string title = flag_title(flag);
      for (size_t at = 0; (at = title.find('|', at)) != std::string::npos; at += 2) {
        title.insert(at, "\\");
      }
      text += format("| `{}` | {} |\n", title, flag_help(flag));
    }
  }
  return text;
}

}  // namespace octavo::cli
