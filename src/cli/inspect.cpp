// `octavo inspect FILE`: what a model file holds and what octavo can do with it.
#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/describe_checkpoint.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "formats/checkpoint.h"
#include "octavo/model.h"

namespace octavo::cli {
namespace {

// The name that the file gives its architecture, "" where it gives none.
std::string architecture_of(const formats::Checkpoint& checkpoint) {
  const Json* name = json_find(checkpoint.metadata(), "general.architecture");
  if (const Json* config = json_find(checkpoint.metadata(), "config")) {
    const Json* names = json_find(*config, "architectures");
    if (names != nullptr && names->is_array() && !names->get_array().empty()) {
      name = &names->get_array()[0];
    }
  }
  return name != nullptr && name->is_string() ? std::string(to_view(name->get_string())) : "";
}

// What the commands can do with the file: "runs", "tokenizes", and a sentence on each.
JsonObject describe_use(const formats::Checkpoint& checkpoint, const std::string& path) {
  const std::string name = architecture_of(checkpoint);
  const bool supported = supports_architecture(name);
  const bool vocabulary_only = checkpoint.tensors().empty();
  std::string model;
  if (vocabulary_only) {
    model = "no: the file holds no weights, a vocabulary at most";
  } else if (name.empty()) {
    model = "no: the file names no architecture";
  } else if (!supported) {
    model = format("no: the architecture {} is not supported", dump_json(Json(name)));
  } else {
    model = format("yes: the architecture {} is supported", name);
  }
  const auto tokenizer = load_tokenizer(path);
  return {{"runs", supported && !vocabulary_only},
          {"model", model},
          {"tokenizes", tokenizer.ok()},
          {"tokenizer", tokenizer.ok() ? format("yes: {} tokens", tokenizer.value()->vocab_size())
                                       : format("no: {}", tokenizer.status().message())}};
}

std::string render_use(const JsonObject& use) {
  return format("Runs        {}\nTokenizes   {}\n", to_view(use.at("model").as_string()),
                to_view(use.at("tokenizer").as_string()));
}

}  // namespace

int run_inspect(int argc, const char* const* argv) {
  std::string model;
  bool json = false;
  Args args("inspect", "Show what a model file holds and what octavo can do with it.",
            "  octavo inspect model.gguf\n  octavo inspect smollm2 --json\n");
  args.positional("MODEL", model, "a model file or folder, or an alias");
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto path = resolve_model(model);
  if (!path.ok()) return fail(path.status());
  const auto checkpoint = formats::open_checkpoint(*path);
  if (!checkpoint.ok()) return fail(checkpoint.status());
  JsonObject use = describe_use(**checkpoint, *path);
  JsonObject description = describe_checkpoint(**checkpoint);
  const std::string text = json ? "" : render_use(use) + render_description(description);
  description.emplace("use", std::move(use));
  return print_out(json ? dump_json(description, 2) + "\n" : text) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
