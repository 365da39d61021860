#include "tokenizer/model_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/conversation.h"

namespace octavo::tokenizer {
namespace {

// Positions within a piece are 32-bit numbers.
constexpr size_t kMaxTextBytes = size_t{1} << 31;

Status check_spans(const RenderedPrompt& prompt) {
  size_t previous_end = 0;
  for (const TextSpan& span : prompt.user_spans) {
    if (span.begin < previous_end || span.end < span.begin || span.end > prompt.text.size()) {
      return invalid_argument(
          format("prompt: the user span [{}, {}) is not in order or not in the "
                 "text of {} bytes",
                 span.begin, span.end, prompt.text.size()));
    }
    previous_end = span.end;
  }
  return {};
}

}  // namespace

ModelTokenizer::ModelTokenizer(std::unique_ptr<const Vocabulary> vocabulary,
                               std::unique_ptr<const TextModel> text_model,
                               Result<ChatTemplate> chat_template)
    : vocabulary_(std::move(vocabulary)),
      special_tokens_(*vocabulary_),
      text_model_(std::move(text_model)),
      chat_template_(std::move(chat_template)) {}

Status ModelTokenizer::append_ids(std::string_view text, std::span<const TextSpan> plain,
                                  std::vector<TokenId>& ids) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument(format("text of {} bytes: the longest that can be encoded has {}",
                                   text.size(), kMaxTextBytes));
  }
  size_t done = 0;
  Before before = Before::kNothing;
  for (const SpecialTokens::Match& match : special_tokens_.find_all(text, plain)) {
    const std::string_view part = text.substr(done, match.span.begin - done);
    OCTAVO_TRY(text_model_->encode(part, before, ids));
    ids.push_back(match.id);
    done = match.span.end;
    before = vocabulary_->is_control(match.id) ? Before::kControlToken : Before::kTextToken;
  }
  return text_model_->encode(text.substr(done), before, ids);
}

Result<std::vector<TokenId>> ModelTokenizer::encode(std::string_view text,
                                                    const EncodeOptions& options) const {
  const TextSpan whole{0, text.size()};
  const std::span<const TextSpan> plain(&whole, options.parse_special ? 0 : 1);
  std::vector<TokenId> ids;
  if (options.add_special) ids = vocabulary_->prefix;
  OCTAVO_TRY(append_ids(text, plain, ids));
  if (options.add_special) {
    ids.insert(ids.end(), vocabulary_->suffix.begin(), vocabulary_->suffix.end());
  }
  return ids;
}

Result<std::vector<TokenId>> ModelTokenizer::encode_prompt(const RenderedPrompt& prompt) const {
  OCTAVO_TRY(check_spans(prompt));
  std::vector<TokenId> ids;
  OCTAVO_TRY(append_ids(prompt.text, prompt.user_spans, ids));
  const std::vector<TokenId>& prefix = vocabulary_->prefix;
  const bool has_prefix = !ids.empty() && !prefix.empty() && ids.front() == prefix.front();
  if (!has_prefix) ids.insert(ids.begin(), prefix.begin(), prefix.end());
  return ids;
}

std::string ModelTokenizer::token_bytes(TokenId id, bool show_special) const {
  if (!vocabulary_->contains(id) || (vocabulary_->is_control(id) && !show_special)) return {};
  return std::string(vocabulary_->bytes[static_cast<size_t>(id)]);
}

std::string ModelTokenizer::token_piece(TokenId id) const {
  if (!vocabulary_->contains(id)) return {};
  return std::string(vocabulary_->pieces[static_cast<size_t>(id)]);
}

bool ModelTokenizer::is_control(TokenId id) const {
  return vocabulary_->contains(id) && vocabulary_->is_control(id);
}

Result<std::string> ModelTokenizer::decode(std::span<const TokenId> ids, bool show_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!vocabulary_->contains(id)) {
      return invalid_argument(
          format("token {}: the vocabulary has ids 0 to {}", id, vocab_size() - 1));
    }
    if (show_special || !vocabulary_->is_control(id)) {
      text += vocabulary_->bytes[static_cast<size_t>(id)];
    }
  }
  if (vocabulary_->space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return utf8_replace_invalid(text);
}

Result<std::shared_ptr<const ChatTemplate>> ModelTokenizer::given_template(
    const std::string& text) const {
  // A server's own and those of its groups; requests may bring any number of others.
  constexpr size_t kMaxTemplates = 64;
  constexpr size_t kMaxKeptBytes = 128 << 10;  // those of models have up to 17 KiB
  const std::lock_guard lock(mutex_);
  const auto known = given_templates_.find(text);
  if (known != given_templates_.end()) return known->second;
  auto parsed = ChatTemplate::parse(text);
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  auto made = std::make_shared<const ChatTemplate>(std::move(*parsed));
  if (text.size() > kMaxKeptBytes) return made;
  if (given_templates_.size() >= kMaxTemplates) given_templates_.clear();
  given_templates_[text] = made;
  return made;
}

Result<RenderedPrompt> ModelTokenizer::render(std::string_view messages_json,
                                              const RenderOptions& options) const {
  JsonObject variables;
  const auto add_token = [&](const char* name, TokenId id) {
    if (id != kNoToken) variables[name] = token_piece(id);
  };
  add_token("bos_token", vocabulary_->bos);
  add_token("eos_token", vocabulary_->eos);
  add_token("unk_token", vocabulary_->unknown);
  add_token("pad_token", vocabulary_->padding);
  if (!options.chat_template.empty()) {
    const auto given = OCTAVO_TRY(given_template(options.chat_template));
    return render_conversation(*given, std::move(variables), messages_json, options);
  }
  if (!chat_template_.ok()) return chat_template_.status();
  return render_conversation(*chat_template_, std::move(variables), messages_json, options);
}

}  // namespace octavo::tokenizer
