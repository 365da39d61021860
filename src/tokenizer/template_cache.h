// TemplateCache: chat templates that callers give as text, parsed once. What a caller keeps stays;
// of all others only the last one does, since any number of them may come from strangers.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tokenizer/chat_template.h"

namespace octavo::tokenizer {

class TemplateCache {
 public:
  // The template of `text`; the error of one that does not parse is the caller's.
  Result<std::shared_ptr<const ChatTemplate>> get(const std::string& text, bool keep);

 private:
  std::shared_ptr<const ChatTemplate> find(const std::string& text) const;

  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<const ChatTemplate>> kept_;
  std::string last_text_;
  std::shared_ptr<const ChatTemplate> last_;
};

}  // namespace octavo::tokenizer
