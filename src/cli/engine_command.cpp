#include "cli/engine_command.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/ab_config.h"
#include "cli/args.h"
#include "cli/chat_template_file.h"
#include "cli/message.h"
#include "cli/progress_bar.h"
#include "cli/resolve_model.h"
#include "formats/hf_checkpoint.h"
#include "server/openai/sampling_fields.h"

namespace octavo::cli {
namespace {

Result<LogLevel> parse_log_level(const std::string& name) {
  if (name == "debug" || name == "trace") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error" || name == "critical") return LogLevel::kError;
  return invalid_argument(format("--uvicorn-log-level: '{}' is no level", name));
}

// The sampling defaults that a model brings: generation_config.json of its folder.
Result<JsonObject> default_sampling(const ServeOptions& options, const std::string& model_path) {
  JsonObject defaults;
  if (options.generation_config != "vllm") {
    const bool is_auto = options.generation_config == "auto";
    const std::string folder = is_auto ? model_path : options.generation_config;
    const std::string path = folder + "/generation_config.json";
    const auto text = formats::read_text_file(path);
    if (!text.ok() && !is_auto) return not_found("--generation-config: cannot read " + path);
    if (text.ok()) {
      const Json json = OCTAVO_TRY(parse_json(*text, path));
      if (!json.is_object()) return data_loss(path + ": must be a JSON object");
      defaults = json.get_object();
    }
  }
  for (const auto& entry : options.override_generation_config) {
    defaults[entry.key()] = entry.value();
  }
  return defaults;
}

// Whether, and to which sizes, embeddings may be cut: config.json says so, or --hf-overrides.
Status read_matryoshka(const Json& config, const std::string& source, server::ServerConfig& out) {
  if (json_find(config, "is_matryoshka") != nullptr) {
    out.is_matryoshka = OCTAVO_TRY(json_bool(config, "is_matryoshka", source));
  }
  if (json_find(config, "matryoshka_dimensions") == nullptr) return {};
  out.matryoshka_dimensions.clear();
  for (const Json& size : *OCTAVO_TRY(json_array(config, "matryoshka_dimensions", source))) {
    if (!size.is_int64()) {
      return data_loss(source + ": 'matryoshka_dimensions' must hold whole numbers");
    }
    out.matryoshka_dimensions.push_back(size.get_int64());
  }
  return {};
}

Status read_model_config(const std::string& model_path, server::ServerConfig& out) {
  const std::string path = model_path + "/config.json";
  const auto text = formats::read_text_file(path);
  if (!text.ok()) return {};
  return read_matryoshka(OCTAVO_TRY(parse_json(*text, path)), path, out);
}

// Of a method that takes a model; of what else is asked for, nothing is downloaded in vain.
Status resolve_draft_model(SpeculativeConfig& config) {
  const bool takes_model = config.method.empty() || config.method == "draft_model";
  if (!takes_model || config.model.empty()) return {};
  Result<std::string> path = resolve_model(config.model);
  if (!path.ok()) {
    return {path.status().code(), "--speculative-config: model: " + path.status().message()};
  }
  config.model = std::move(*path);
  return {};
}

Result<ServeOptions> complete(ServeOptions options, const std::string& path) {
  server::ServerConfig& config = options.server;
  config.version = OCTAVO_VERSION;
  if (config.served_model_names.empty()) config.served_model_names.push_back(options.model);
  config.default_sampling = OCTAVO_TRY(default_sampling(options, path));
  const Result<SamplingParams> defaults = server::read_default_sampling(config);
  const Status sampling = defaults.ok() ? validate_sampling(*defaults) : defaults.status();
  if (!sampling.ok()) {
    return invalid_argument("generation_config.json or --override-generation-config: " +
                            sampling.message());
  }
  OCTAVO_TRY(read_model_config(path, config));
  OCTAVO_TRY(read_matryoshka(options.hf_overrides, "--hf-overrides", config));
  config.chat_template = OCTAVO_TRY(read_chat_template(options.chat_template, "--chat-template"));
  config.groups = OCTAVO_TRY(read_ab_config(options.ab_config));
  if (!config.root_path.empty() && config.root_path[0] != '/') {
    config.root_path.insert(config.root_path.begin(), '/');
  }
  while (config.root_path.ends_with('/')) config.root_path.pop_back();
  if (auto& speculative = options.engine.speculative_config) {
    OCTAVO_TRY(resolve_draft_model(*speculative));
  }
  // A step holds at least one token of each sequence; who raises only one of the two means both.
  int64_t& batched_tokens = options.engine.max_num_batched_tokens;
  if (batched_tokens > 0) batched_tokens = std::max(batched_tokens, options.engine.max_num_seqs);
  return options;
}

Result<ServeOptions> read_options(const EngineCommand& command,
                                  const std::vector<std::string>& arguments,
                                  Status (*check)(const ServeOptions& options)) {
  ServeOptions options = OCTAVO_TRY(parse_engine_flags(command, arguments));
  set_default_log_level(OCTAVO_TRY(parse_log_level(options.log_level)));
  if (check != nullptr) OCTAVO_TRY(check(options));
  return options;
}

}  // namespace

std::variant<EngineSetup, int> set_up_engine(const EngineCommand& command,
                                             const std::vector<std::string>& arguments,
                                             Status (*check)(const ServeOptions& options)) {
  for (const std::string& argument : arguments) {
    if (argument != "--help" && argument != "-h") continue;
    return print_out(engine_help(command)) ? kExitOk : kExitFailed;
  }
  auto options = read_options(command, arguments, check);
  if (!options.ok()) {
    print_error(options.status().message());
    print_hint(format("{} --help shows all flags", command.name));
    return kExitUsage;
  }
  auto path = resolve_model(options->model, options->revision);
  if (!path.ok()) return fail(path.status());
  auto completed = complete(std::move(*options), *path);
  if (!completed.ok()) return fail(completed.status());
  return EngineSetup{std::move(*completed), std::move(*path)};
}

Result<std::unique_ptr<AsyncEngine>> create_engine(const std::string& path, EngineConfig config) {
  if (!ProgressBar::wanted()) return AsyncEngine::create(path, config);
  ProgressBar bar("loading");
  config.progress = [&bar](int64_t done, int64_t total) { bar.show_bytes(done, total); };
  return AsyncEngine::create(path, config);
}

}  // namespace octavo::cli
