#include "server/openai/prompts.h"

#include "base/check.h"
#include "base/format.h"

namespace octavo::server {
namespace {

constexpr size_t kMaxPrompts = 2048;

bool is_ids(const Json& value) {
  return value.is_array() && !value.get_array().empty() && value.get_array()[0].is_number();
}

Result<Prompt> read_prompt(App& app, const std::string& name, const Json& value,
                           bool add_special_tokens, bool wants_text) {
  Prompt prompt;
  if (value.is_string()) {
    const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
    OCTAVO_TRY(app.check_prompt_size(value.get_string().size()));
    prompt.text = to_view(value.get_string());
    prompt.token_ids = OCTAVO_TRY(
        tokenizer->encode(prompt.text, {.add_special = add_special_tokens, .parse_special = true}));
  } else {
    const JsonObject object{{name, value}};
    Fields fields(object);
    fields.read(name, prompt.token_ids);
    OCTAVO_TRY(fields.status());
    const int64_t vocab_size = app.engine().info().vocab_size;
    for (const TokenId id : prompt.token_ids) {
      if (id >= vocab_size) {
        return invalid_argument(
            format("{}: token id {} is outside the vocabulary of {}", name, id, vocab_size));
      }
    }
    if (wants_text) {
      const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
      prompt.text = OCTAVO_TRY(tokenizer->decode(prompt.token_ids, true));
    }
  }
  if (prompt.token_ids.empty()) return invalid_argument(name + " is empty: it has no token");
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(App& app, const std::string& name, const Json& prompt,
                                         bool add_special_tokens, bool wants_text) {
  std::vector<Prompt> prompts;
  if (prompt.is_string() || is_ids(prompt)) {
    prompts.push_back(OCTAVO_TRY(read_prompt(app, name, prompt, add_special_tokens, wants_text)));
    return prompts;
  }
  if (!prompt.is_array()) {
    return invalid_argument(name + " must be a string, an array of strings, or token ids");
  }
  const JsonArray& array = prompt.get_array();
  if (array.empty()) return invalid_argument(name + " is empty");
  if (array.size() > kMaxPrompts) {
    return invalid_argument(
        format("{} has {} entries, at most {} are taken", name, array.size(), kMaxPrompts));
  }
  for (const Json& entry : array) {
    if (!entry.is_string() && !entry.is_array()) {
      return invalid_argument(name + " must hold strings or arrays of token ids");
    }
    prompts.push_back(OCTAVO_TRY(read_prompt(app, name, entry, add_special_tokens, wants_text)));
  }
  return prompts;
}

}  // namespace octavo::server
