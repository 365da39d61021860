#include "tokenizer/conversation.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace octavo::tokenizer {
namespace {

// The caller's JSON, so that an error in it is the caller's.
Result<Json> parse_argument(std::string_view text, std::string_view name) {
  Result<Json> parsed = parse_json(text, name);
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  return parsed;
}

Result<Json> parse_messages(std::string_view text) {
  Json messages = OCTAVO_TRY(parse_argument(text, "messages"));
  if (!messages.is_array()) return invalid_argument("messages: must be an array");
  size_t i = 0;
  for (const Json& message : messages.get_array()) {
    if (!message.is_object()) return invalid_argument(format("messages[{}]: must be an object", i));
    ++i;
  }
  return messages;
}

Result<Json> template_variables(JsonObject variables, std::string_view messages_json,
                                const RenderOptions& options) {
  variables["documents"] = nullptr;
  variables["tools"] = nullptr;
  if (!options.context_json.empty()) {
    const Json context = OCTAVO_TRY(parse_argument(options.context_json, "context"));
    if (!context.is_object()) return invalid_argument("context: must be an object");
    for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
      if (context.get_object().contains(name)) {
        return invalid_argument(format("context: '{}' has a place of its own", name));
      }
    }
    for (const auto& variable : context.get_object()) {
      variables[variable.key()] = variable.value();
    }
  }
  if (!options.tools_json.empty()) {
    Json tools = OCTAVO_TRY(parse_argument(options.tools_json, "tools"));
    if (!tools.is_array()) return invalid_argument("tools: must be an array");
    variables["tools"] = std::move(tools);
  }
  variables["messages"] = OCTAVO_TRY(parse_messages(messages_json));
  variables["add_generation_prompt"] = options.add_generation_prompt;
  return Json(std::move(variables));
}

}  // namespace

Result<RenderedPrompt> render_conversation(const ChatTemplate& chat_template, JsonObject tokens,
                                           std::string_view messages_json,
                                           const RenderOptions& options) {
  const Json variables = OCTAVO_TRY(template_variables(std::move(tokens), messages_json, options));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return chat_template.render(variables,
                              std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

}  // namespace octavo::tokenizer

namespace octavo {

Status check_chat_template(std::string_view chat_template, const std::string& source) {
  return tokenizer::parse_chat_template(chat_template, source).status();
}

Result<RenderedPrompt> render_chat_template(std::string_view chat_template,
                                            const std::string& source,
                                            std::string_view messages_json,
                                            const RenderOptions& options) {
  const auto parsed = OCTAVO_TRY(tokenizer::parse_chat_template(chat_template, source));
  return tokenizer::render_conversation(parsed, {}, messages_json, options);
}

}  // namespace octavo
