#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "server/openai/prompts.h"

namespace octavo::server {
namespace {

// What is wrong in a file is the server's fault, in a request the client's.
Result<std::string> read_string(const Json& object, std::string_view key,
                                const std::string& where) {
  auto text = json_string(object, key, where);
  return text.ok() ? std::move(text) : invalid_argument(text.status().message());
}

Result<std::vector<std::string>> read_parts(const JsonArray& parts, const std::string& where) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].is_string()) {
      texts.emplace_back(to_view(parts[i].get_string()));
      continue;
    }
    const std::string source = format("{}[{}]", where, i);
    const std::string type = OCTAVO_TRY(read_string(parts[i], "type", source));
    if (type != "text" && type != "refusal") {
      return unsupported(
          format("{}: parts of type '{}' are not supported: models take text only", source, type));
    }
    texts.push_back(OCTAVO_TRY(read_string(parts[i], type, source)));
  }
  return texts;
}

// Contents as the template takes them. Where it takes no parts they become one text, one a line,
// as in vLLM.
Json to_content(const std::vector<std::string>& texts, bool as_parts) {
  if (as_parts) {
    JsonArray parts;
    for (const std::string& text : texts) {
      parts.push_back(JsonObject{{"type", "text"}, {"text", text}});
    }
    return parts;
  }
  std::string joined;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) joined += '\n';
    joined += texts[i];
  }
  return Json(joined);
}

// Templates expect the arguments of a call as an object, while the API has them as text.
void parse_arguments(JsonObject& message) {
  auto* calls = message.if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (Json& call : calls->get_array()) {
    if (!call.is_object()) continue;
    auto* function = call.get_object().if_contains("function");
    if (function == nullptr || !function->is_object()) continue;
    auto* arguments = function->get_object().if_contains("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    auto parsed = parse_json(to_view(arguments->get_string()), "arguments");
    if (parsed.ok() && parsed->is_object()) *arguments = std::move(*parsed);
  }
}

Status read_content(JsonObject& message, const std::string& where, const ContentKinds& kinds) {
  const Json* content = message.if_contains("content");
  std::vector<std::string> texts;
  const bool is_array = content != nullptr && content->is_array();
  if (is_array) {
    texts = OCTAVO_TRY(read_parts(content->get_array(), where + ".content"));
  } else if (content == nullptr || content->is_null()) {
    texts.emplace_back();
  } else if (content->is_string()) {
    texts.emplace_back(to_view(content->get_string()));
  } else {
    return invalid_argument(where + ".content must be a string or an array of parts");
  }
  message["content"] = to_content(texts, is_array ? kinds.parts : !kinds.text);
  return {};
}

Result<JsonArray> read_messages(Fields& fields, const ContentKinds& kinds) {
  const Json* given = fields.find("messages");
  if (given == nullptr) return invalid_argument("messages is missing");
  if (!given->is_array() || given->get_array().empty()) {
    return invalid_argument("messages must be an array that is not empty");
  }
  JsonArray messages = given->get_array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = format("messages[{}]", i);
    OCTAVO_TRY(read_string(messages[i], "role", where));
    JsonObject& message = messages[i].get_object();
    OCTAVO_TRY(read_content(message, where, kinds));
    parse_arguments(message);
  }
  return messages;
}

// Tools are shown to the model only where it need not call them: calls are not parsed yet.
Result<std::string> read_tools(Fields& fields, const ServerConfig& config) {
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  bool parallel = true;
  fields.read("parallel_tool_calls", parallel);
  const bool has_tools = tools != nullptr && !(tools->is_array() && tools->get_array().empty());
  const bool is_none = choice != nullptr && choice->is_string() && choice->get_string() == "none";
  if (!has_tools) {
    if (choice == nullptr || is_none) return std::string();
    return invalid_argument("tool_choice needs tools");
  }
  if (!tools->is_array()) return invalid_argument("tools must be an array");
  if (!is_none) {
    return unsupported(
        "tool_choice must be 'none' where tools are given: tool calls are not supported yet");
  }
  if (config.exclude_tools_when_tool_choice_none) return std::string();
  return dump_json(*tools);
}

Result<std::string> read_context(Fields& fields, const ServerConfig& config) {
  JsonObject context = config.default_chat_template_kwargs;
  if (const JsonObject* kwargs = fields.read_object("chat_template_kwargs")) {
    for (const auto& entry : *kwargs) context[entry.key()] = entry.value();
  }
  if (const Json* documents = fields.find("documents")) {
    if (!documents->is_array()) return invalid_argument("documents must be an array");
    context["documents"] = *documents;
  }
  std::string effort;
  fields.read("reasoning_effort", effort);
  if (!effort.empty()) context["reasoning_effort"] = effort;
  return context.empty() ? std::string() : dump_json(context);
}

// The request's own template, where the server lets requests bring one; that of its group comes as
// such too.
Result<std::string> read_chat_template(Fields& fields, const App& app) {
  std::string own;
  fields.read("chat_template", own);
  if (own.empty()) return app.config().chat_template;
  if (app.config().trust_request_chat_template || app.has_template(own)) return own;
  return invalid_argument(
      "chat_template is not taken from requests: the server runs without "
      "--trust-request-chat-template");
}

// The text that an answer goes on with: of parts the last one, as in Hugging Face's templates.
std::string last_text(const JsonObject& message) {
  const Json& content = message.at("content");
  if (content.is_string()) return std::string(to_view(content.get_string()));
  const JsonArray& parts = content.get_array();
  return parts.empty() ? "" : std::string(to_view(parts.back().at("text").get_string()));
}

// Cuts what the template puts after the last message, so that the model goes on with it.
Status cut_after(RenderedPrompt& prompt, std::string_view content) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::string_view start = content;
  while (!start.empty() && is_space(start.front())) start.remove_prefix(1);
  std::string_view trimmed = start;
  while (!trimmed.empty() && is_space(trimmed.back())) trimmed.remove_suffix(1);
  const size_t found = prompt.text.rfind(trimmed);
  if (trimmed.empty() || found == std::string::npos) {
    return invalid_argument(
        "continue_final_message: the template does not show the last message's content");
  }
  const bool keeps_space = std::string_view(prompt.text).substr(found).starts_with(start);
  const size_t end = found + (keeps_space ? start.size() : trimmed.size());
  prompt.text.resize(end);
  std::erase_if(prompt.user_spans, [end](const TextSpan& span) { return span.begin >= end; });
  for (TextSpan& span : prompt.user_spans) span.end = std::min(span.end, end);
  return {};
}

}  // namespace

Result<Prompt> read_chat_prompt(App& app, Fields& fields) {
  const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
  RenderOptions options;
  options.chat_template = OCTAVO_TRY(read_chat_template(fields, app));
  const ContentKinds kinds = app.content_kinds(options.chat_template);
  const JsonArray messages = OCTAVO_TRY(read_messages(fields, kinds));
  options.tools_json = OCTAVO_TRY(read_tools(fields, app.config()));
  options.context_json = OCTAVO_TRY(read_context(fields, app.config()));
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  bool add_special_tokens = false;  // whether a BOS is added is the template's and the model's own
  fields.read("add_generation_prompt", add_generation_prompt);
  fields.read("continue_final_message", continue_final_message);
  fields.read("add_special_tokens", add_special_tokens);
  OCTAVO_TRY(fields.status());
  if (continue_final_message && add_generation_prompt.value_or(false)) {
    return invalid_argument("continue_final_message and add_generation_prompt cannot both be true");
  }
  options.add_generation_prompt = add_generation_prompt.value_or(!continue_final_message);
  RenderedPrompt rendered = OCTAVO_TRY(tokenizer->render(dump_json(messages), options));
  if (continue_final_message) {
    OCTAVO_TRY(cut_after(rendered, last_text(messages.back().get_object())));
  }
  OCTAVO_TRY(app.check_prompt_size(rendered.text.size()));
  Prompt prompt;
  prompt.token_ids = OCTAVO_TRY(tokenizer->encode_prompt(rendered));
  prompt.text = std::move(rendered.text);
  if (prompt.token_ids.empty()) return invalid_argument("messages give an empty prompt");
  return prompt;
}

}  // namespace octavo::server
