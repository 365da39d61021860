#include "server/content_kinds.h"

namespace octavo::server {
namespace {

constexpr const char* kText = R"([{"role": "user", "content": "probe-one probe-two"}])";
constexpr const char* kParts = R"([{"role": "user", "content": [
    {"type": "text", "text": "probe-one"}, {"type": "text", "text": "probe-two"}]}])";

// A template that prints a list instead of reading it shows its strings in quotes.
bool shows_contents(const Tokenizer& tokenizer, const std::string& chat_template,
                    const char* messages) {
  RenderOptions options;
  options.chat_template = chat_template;
  const auto prompt = tokenizer.render(messages, options);
  if (!prompt.ok()) return false;
  const auto shows = [&](const char* text) { return prompt->text.find(text) != std::string::npos; };
  return shows("probe-one") && shows("probe-two") && !shows("\"probe-two") && !shows("'probe-two");
}

}  // namespace

ContentKinds choose_content_kinds(const Tokenizer* tokenizer, const std::string& chat_template,
                                  ContentFormat format) {
  if (format == ContentFormat::kString || tokenizer == nullptr) return {true, false};
  if (format == ContentFormat::kOpenai) return {false, true};
  const bool parts = shows_contents(*tokenizer, chat_template, kParts);
  return {!parts || shows_contents(*tokenizer, chat_template, kText), parts};
}

}  // namespace octavo::server
