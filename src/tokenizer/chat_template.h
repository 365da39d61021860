// ChatTemplate: a parsed Jinja template of a model, in Hugging Face's dialect (trim_blocks,
// lstrip_blocks, loop controls, sandboxed, its tojson). Parse once, render often, from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

class ChatTemplate {
 public:
  // Errors carry line and column of the template: "chat template:12:5: …".
  static Result<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders with `variables` (an object) as the template's globals: messages, tools, bos_token,
  // add_generation_prompt and so on. String values below "messages" are the user's: where their
  // bytes reach the output they are listed in user_spans (through trim, slices, split, replace,
  // concatenation, tojson, macros and so on; a "role" or other value that is only compared leaves
  // no trace). `now_s` (seconds since 1970) is what strftime_now shows, in local time. Limits: 10
  // million steps, 64 MiB of output, nesting of 200. raise_exception is kInvalidArgument with the
  // template's own message, and so is any other error at run time, with line and column.
  Result<RenderedPrompt> render(const Json& variables, int64_t now_s) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The same with `file`, where the template is from, before the error.
Result<ChatTemplate> parse_chat_template(std::string_view source, const std::string& file);

}  // namespace octavo::tokenizer
