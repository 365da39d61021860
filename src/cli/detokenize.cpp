// `octavo detokenize`: the text of token ids; what `octavo tokenize` prints can be handed in.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "octavo/model.h"

namespace octavo::cli {
namespace {

// "1 2\n3" -> "1,2,3"; what has commas already stays as it is.
std::string with_commas(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::string out;
  for (size_t pos = text.find_first_not_of(kSpaces); pos != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, pos), text.size());
    if (!out.empty() && out.back() != ',' && text[pos] != ',') out += ',';
    out += text.substr(pos, end - pos);
    pos = text.find_first_not_of(kSpaces, end);
  }
  return out;
}

}  // namespace

int run_detokenize(int argc, const char* const* argv) {
  std::string ids_text;
  bool show_special = false;
  bool json = false;
  Args args("detokenize", "Print the text of token ids.",
            "  octavo detokenize smollm2 19556,28,905,17\n"
            "  octavo tokenize smollm2 \"Hello, world!\" | octavo detokenize smollm2 -\n");
  const ModelArgument model(args);
  args.positional("IDS", ids_text, "ids with commas or spaces between; - reads standard input");
  args.flag("--show-special", show_special, "print control tokens too");
  args.flag("--json", json, "print an object with text and pieces");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  const auto content = text_or_stdin(ids_text);
  if (!content.ok()) return fail(content.status());
  const std::string list = with_commas(*content);
  std::vector<TokenId> ids;
  if (!list.empty()) {
    auto parsed = parse_token_ids(list, "IDS");
    if (!parsed.ok()) {
      print_error(parsed.status().message());
      return kExitUsage;
    }
    ids = std::move(parsed).value();
  }
  const auto path = model.resolve();
  if (!path.ok()) return fail(path.status());
  const auto tokenizer = load_tokenizer(*path);
  if (!tokenizer.ok()) return fail(tokenizer.status());
  auto text = (*tokenizer)->decode(ids, show_special);
  if (!text.ok()) return fail(text.status());
  if (!json) return print_out(*text + "\n") ? kExitOk : kExitFailed;
  JsonArray pieces;
  for (const TokenId id : ids) pieces.emplace_back((*tokenizer)->token_piece(id));
  const std::string line = dump_json(JsonObject{{"text", *text}, {"pieces", std::move(pieces)}});
  return print_out(line + "\n") ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
