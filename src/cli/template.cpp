// `octavo template`: the prompt that a chat template makes of messages, and nothing more.
#include "base/check.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "formats/hf_checkpoint.h"
#include "octavo/model.h"

namespace octavo::cli {
namespace {

// The text of a JSON file; "-" is standard input. A file that is no JSON is an error naming it.
Result<std::string> read_json_text(const std::string& path) {
  std::string text = OCTAVO_TRY(path == "-" ? text_or_stdin(path) : formats::read_text_file(path));
  const std::string source = path == "-" ? "standard input" : path;
  OCTAVO_TRY(parse_json(text, source));
  return text;
}

struct TemplateFiles {
  std::string model;
  std::string messages;
  std::string tools;
  std::string context;
};

Result<RenderedPrompt> render(const TemplateFiles& files, RenderOptions options) {
  if (!files.tools.empty()) options.tools_json = OCTAVO_TRY(read_json_text(files.tools));
  if (!files.context.empty()) options.context_json = OCTAVO_TRY(read_json_text(files.context));
  const std::string messages = OCTAVO_TRY(read_json_text(files.messages));
  if (files.model.ends_with(".jinja")) {
    const std::string text = OCTAVO_TRY(formats::read_text_file(files.model));
    return render_chat_template(text, files.model, messages, options);
  }
  const std::string path = OCTAVO_TRY(resolve_model(files.model));
  return OCTAVO_TRY(load_tokenizer(path))->render(messages, options);
}

}  // namespace

int run_template(int argc, const char* const* argv) {
  TemplateFiles files;
  bool no_generation_prompt = false;
  Args args("template", "Print the prompt that a chat template makes of messages.",
            "  octavo template smollm2 messages.json\n"
            "  octavo template chat_template.jinja - --tools tools.json < messages.json\n");
  args.positional("MODEL", files.model, std::string(kModelHelp) + ", or a template's .jinja file");
  args.positional("MESSAGES", files.messages,
                  "a JSON file: an array of objects with role and content; - reads standard input");
  args.flag("--no-generation-prompt", no_generation_prompt,
            "do not begin the assistant's turn at the end");
  args.option("--tools", files.tools, "a JSON file: an array of tools");
  args.option("--context", files.context, "a JSON file: an object of further variables");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto prompt = render(files, {.add_generation_prompt = !no_generation_prompt});
  if (!prompt.ok()) return fail(prompt.status());
  return print_out(prompt->text) ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
