// A stand-in until the template engine is merged: drop this file then.
#include "tokenizer/chat_template.h"

namespace octavo::tokenizer {

struct ChatTemplate::Impl {};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view) {
  return unsupported("chat templates are not supported yet");
}

Result<RenderedPrompt> ChatTemplate::render(const Json&, int64_t) const {
  return unsupported("chat templates are not supported yet");
}

}  // namespace octavo::tokenizer
