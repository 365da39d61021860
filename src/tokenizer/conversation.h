// From a caller's JSON to a template's variables: what `render` of a model's tokenizer and of a
// template alone share.
#pragma once

#include <string_view>

#include "base/json.h"
#include "octavo/tokenizer.h"
#include "tokenizer/chat_template.h"

namespace octavo::tokenizer {

// `tokens`: the special tokens by the names that templates know them by. An error of the caller's
// JSON is kInvalidArgument and names the argument.
Result<RenderedPrompt> render_conversation(const ChatTemplate& chat_template, JsonObject tokens,
                                           std::string_view messages_json,
                                           const RenderOptions& options);

}  // namespace octavo::tokenizer
