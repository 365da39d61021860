#include "tokenizer/template_cache.h"

#include <utility>

namespace octavo::tokenizer {

std::shared_ptr<const ChatTemplate> TemplateCache::find(const std::string& text) const {
  const auto kept = kept_.find(text);
  if (kept != kept_.end()) return kept->second;
  return last_text_ == text ? last_ : nullptr;
}

Result<std::shared_ptr<const ChatTemplate>> TemplateCache::get(const std::string& text, bool keep) {
  constexpr size_t kMaxLastBytes = 128 << 10;  // templates of models have up to 17 KiB
  std::shared_ptr<const ChatTemplate> found;
  {
    const std::lock_guard lock(mutex_);
    found = find(text);
  }
  // Without the lock: a long one must not hold up those who have theirs.
  if (found == nullptr) {
    auto parsed = ChatTemplate::parse(text);
    if (!parsed.ok()) return invalid_argument(parsed.status().message());
    found = std::make_shared<const ChatTemplate>(std::move(*parsed));
  }
  const std::lock_guard lock(mutex_);
  if (keep) return kept_.try_emplace(text, std::move(found)).first->second;
  if (text.size() <= kMaxLastBytes && !kept_.contains(text)) {
    last_text_ = text;
    last_ = found;
  }
  return found;
}

}  // namespace octavo::tokenizer
