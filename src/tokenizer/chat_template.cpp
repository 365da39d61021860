#include "tokenizer/chat_template.h"

#include <utility>

#include "base/check.h"
#include "tokenizer/jinja/heap.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/parser.h"
#include "tokenizer/jinja/scope.h"
#include "tokenizer/jinja/source.h"

namespace octavo::tokenizer {

struct ChatTemplate::Impl {
  std::string source;  // names and literals of the tree point into it
  jinja::Heap heap;    // and into this
  jinja::Body body;
  jinja::RootScope root;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  impl->source = jinja::normalize_source(source);
  const std::vector<jinja::Token> tokens = OCTAVO_TRY(jinja::tokenize(impl->source));
  impl->body = OCTAVO_TRY(jinja::Parser(impl->source, tokens, impl->heap).parse());
  impl->root = OCTAVO_TRY(jinja::resolve_names(impl->body, impl->source));
  return ChatTemplate(std::move(impl));
}

Result<RenderedPrompt> ChatTemplate::render(const Json& variables, int64_t now_s) const {
  jinja::Interpreter interpreter(impl_->source, variables, now_s);
  return interpreter.render(impl_->body, impl_->root);
}

Result<ChatTemplate> parse_chat_template(std::string_view source, const std::string& file) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  if (parsed.ok()) return parsed;
  return Status(parsed.status().code(), file + ": " + parsed.status().message());
}

}  // namespace octavo::tokenizer
