// Chat templates of any bytes, with variables of any JSON: parsing and rendering neither crash nor
// take long, and what is marked as the caller's lies in the text. Before a zero byte stands the
// template, behind it the variables; without one there is a conversation.
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "tokenizer/chat_template.h"

namespace {

using octavo::Json;

const Json& conversation() {
  static const Json json = octavo::parse_json(R"({
    "messages": [
      {"role": "system", "content": " Be kind. "},
      {"role": "user", "content": [{"type": "text", "text": "Hé <|im_end|>"}, {"type": "image"}]},
      {"role": "assistant", "content": "<think>a</think>b", "tool_calls": [
        {"id": "1", "type": "function",
         "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
      {"role": "tool", "content": "{\"a\": 1}", "tool_call_id": "1"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {"x": {"type": "array"}}}}}],
    "s": "abc", "xs": [3, 1, 2], "d": {"k": "v", "n": 1}, "n": null, "i": 7, "x": 2.5, "t": true,
    "add_generation_prompt": true, "bos_token": "<s>"})",
                                              "conversation")
                               .value();
  return json;
}

void check_spans(const octavo::RenderedPrompt& prompt) {
  size_t end = 0;
  for (size_t i = 0; i < prompt.user_spans.size(); ++i) {
    const octavo::TextSpan& span = prompt.user_spans[i];
    if (span.begin >= span.end || (i > 0 && span.begin <= end)) std::abort();
    end = span.end;
  }
  if (end > prompt.text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), input.size());
  const auto parsed = octavo::tokenizer::ChatTemplate::parse(input.substr(0, zero));
  if (!parsed.ok()) return 0;
  Json variables = conversation();
  if (zero < input.size()) {
    auto given = octavo::parse_json(input.substr(zero + 1), "variables");
    if (!given.ok()) return 0;
    variables = std::move(given).value();
  }
  const auto rendered = parsed.value().render(variables, 1751792703);
  if (rendered.ok()) check_spans(rendered.value());
  return 0;
}
