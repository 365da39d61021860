// `octavo logits`: a model's logits as a file, for people who compare implementations.
#include <cstdio>

#include "base/format.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "formats/safetensors_writer.h"

namespace octavo::cli {

int run_logits(int argc, const char* const* argv) {
  std::string token_ids;
  std::string output;
  std::string positions = "last";
  Args args("logits",
            "Write the logits after given tokens to a .safetensors file: tensor `logits`, F32,\n"
            "[positions, vocab_size]. No tokenizer is needed.",
            "  octavo logits model.gguf --token-ids 504,3575,282 --output out.safetensors\n"
            "  octavo logits model.gguf --token-ids 504,3575 --output out.safetensors "
            "--positions all\n");
  ModelArgs model_args(args);
  args.option("--token-ids", token_ids, "comma-separated ids of the prompt");
  args.option("--output", output, "the file to write");
  args.choice("--positions", positions, {"last", "all"}, "after the last token, or after each");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  for (const char* flag : {"--token-ids", "--output"}) {
    if (args.given(flag)) continue;
    print_error(format("{} is required", flag));
    return kExitUsage;
  }
  const auto ids = parse_token_ids(token_ids);
  if (!ids.ok()) {
    print_error(ids.status().message());
    return kExitUsage;
  }
  const auto model = model_args.load();
  if (!model.ok()) return fail(model.status());
  const auto logits =
      (*model)->logits(*ids, positions == "all" ? LogitsPositions::kAll : LogitsPositions::kLast);
  if (!logits.ok()) return fail(logits.status());
  const Tensor tensor{"logits",
                      DType::kF32,
                      {logits->num_positions, logits->vocab_size},
                      reinterpret_cast<const std::byte*>(logits->values.data()),
                      nullptr};
  const Status written = formats::write_safetensors(output, {&tensor, 1});
  return written.ok() ? kExitOk : fail(written);
}

}  // namespace octavo::cli
