// `octavo tokenize`: the ids of a text. A file with a vocabulary and no weights is enough.
#include "base/format.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "octavo/model.h"

namespace octavo::cli {

int run_tokenize(int argc, const char* const* argv) {
  std::string text;
  bool no_add_special = false;
  bool parse_special = false;
  bool json = false;
  Args args("tokenize", "Print the token ids of a text on one line.",
            "  octavo tokenize smollm2 \"Hello, world!\"\n"
            "  octavo tokenize smollm2 - --json < file.txt\n");
  const ModelArgument model(args);
  args.positional("TEXT", text, "the text; - reads standard input");
  args.flag("--no-add-special", no_add_special, "do not add BOS or EOS");
  args.flag("--parse-special", parse_special, "recognise control tokens in the text");
  args.flag("--json", json, "print an object with ids and pieces");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto path = model.resolve();
  if (!path.ok()) return fail(path.status());
  const auto tokenizer = load_tokenizer(*path);
  if (!tokenizer.ok()) return fail(tokenizer.status());
  const auto content = text_or_stdin(text);
  if (!content.ok()) return fail(content.status());
  const auto ids = (*tokenizer)->encode(*content, {!no_add_special, parse_special});
  if (!ids.ok()) return fail(ids.status());
  std::string line;
  if (json) {
    JsonArray id_array;
    JsonArray pieces;
    for (const TokenId id : *ids) {
      id_array.emplace_back(id);
      pieces.emplace_back((*tokenizer)->token_piece(id));
    }
    line = dump_json(JsonObject{{"ids", std::move(id_array)}, {"pieces", std::move(pieces)}});
  } else {
    for (size_t i = 0; i < ids->size(); ++i) line += format("{}{}", i == 0 ? "" : " ", (*ids)[i]);
  }
  return print_out(line + "\n") ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
