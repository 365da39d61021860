// Prompts of a request: text or token ids, one or many, or a conversation, as token ids.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "octavo/tokenizer.h"
#include "server/app.h"
#include "server/openai/fields.h"

namespace octavo::server {

struct Prompt {
  std::string text;  // of a prompt given as ids only where asked for
  std::vector<TokenId> token_ids;
};

// "text", [1, 2], ["text", …] or [[1, 2], …]. `name` is the field's, for errors.
Result<std::vector<Prompt>> read_prompts(App& app, const std::string& name, const Json& prompt,
                                         bool add_special_tokens, bool wants_text);

// `messages` and what goes with them (tools, documents, chat_template_kwargs, …), rendered.
Result<Prompt> read_chat_prompt(App& app, Fields& fields);

}  // namespace octavo::server
