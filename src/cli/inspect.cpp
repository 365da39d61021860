// `octavo inspect FILE`: what a model file holds and what octavo can do with it.
#include "base/format.h"
#include "base/utf8.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/describe_checkpoint.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "formats/checkpoint.h"
#include "octavo/model.h"
#include "quant/scheme.h"

namespace octavo::cli {
namespace {

// How the linears of a Hugging Face folder are quantised; "" where they are not, or unknown to
// octavo, which the refusal to run the model then says.
std::string describe_quantization(const formats::Checkpoint& checkpoint) {
  const Json* config = json_find(checkpoint.metadata(), "config");
  const Json* found = config == nullptr ? nullptr : quant::find_quantization_config(*config);
  if (found == nullptr) return "";
  const auto scheme = quant::read_scheme(*found, checkpoint.path());
  return scheme.ok() ? scheme.value()->description() : "";
}

// What the commands can do with the file, a sentence on each, and what it takes of memory.
JsonObject describe_use(const formats::Checkpoint& checkpoint, const std::string& path,
                        const LoadOptions& options) {
  JsonObject use;
  if (checkpoint.tensors().empty()) {
    use = {{"runs", false}, {"model", "no: the file holds no weights, a vocabulary at most"}};
  } else if (const auto needs = measure_memory(path, options); needs.ok()) {
    use = {{"runs", true},
           {"model", "yes"},
           {"memory", JsonObject{{"weight_bytes", needs.value().weight_bytes},
                                 {"kv_bytes_per_token", needs.value().kv_bytes_per_token},
                                 {"workspace_bytes", needs.value().workspace_bytes},
                                 {"max_model_len", needs.value().max_model_len}}}};
  } else {
    use = {{"runs", false}, {"model", format("no: {}", needs.status().message())}};
  }
  if (const std::string scheme = describe_quantization(checkpoint); !scheme.empty()) {
    use.emplace("quantization", scheme);
  }
  const auto tokenizer = load_tokenizer(path);
  use.emplace("tokenizes", tokenizer.ok());
  use.emplace("tokenizer", tokenizer.ok()
                               ? format("yes: {} tokens", tokenizer.value()->vocab_size())
                               : format("no: {}", tokenizer.status().message()));
  return use;
}

std::string render_memory(const Json& memory) {
  constexpr double kMegabyte = 1e6;
  const auto megabytes = [&](const char* key) {
    return memory.at(key).to_number<double>() / kMegabyte;
  };
  return format(
      "Memory      weights {:.1f} MB, KV cache {:.1f} MB for 1000 tokens (of {} at most), "
      "workspace {:.1f} MB\n",
      megabytes("weight_bytes"), 1000 * megabytes("kv_bytes_per_token"),
      memory.at("max_model_len").as_int64(), megabytes("workspace_bytes"));
}

std::string render_use(const JsonObject& use) {
  const auto text = [&](const char* key) { return printable(to_view(use.at(key).as_string())); };
  const Json* memory = use.if_contains("memory");
  const std::string scheme =
      use.contains("quantization") ? format("Quantized   {}\n", text("quantization")) : "";
  return format("Runs        {}\n{}{}Tokenizes   {}\n", text("model"), scheme,
                memory == nullptr ? "" : render_memory(*memory), text("tokenizer"));
}

}  // namespace

int run_inspect(int argc, const char* const* argv) {
  bool json = false;
  Args args("inspect",
            "Show what a model file holds, whether octavo runs it and what memory that takes.",
            "  octavo inspect model.gguf\n  octavo inspect smollm2 --json\n");
  const ModelArgs model(args);
  args.flag("--json", json, "print JSON");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto path = model.resolve();
  if (!path.ok()) return fail(path.status());
  const auto checkpoint = formats::open_checkpoint(*path);
  if (!checkpoint.ok()) return fail(checkpoint.status());
  JsonObject use = describe_use(**checkpoint, *path, model.options());
  JsonObject description = describe_checkpoint(**checkpoint);
  const std::string text = json ? "" : render_use(use) + render_description(description);
  description.emplace("use", std::move(use));
  return print_out(json ? dump_json(description, 2) + "\n" : text) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
