#include "tokenizer/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace octavo::tokenizer {

std::string Detokenizer::push(TokenId id) {
  pending_ += tokenizer_.token_bytes(id, show_special_);
  if (skip_space_ && !pending_.empty()) {
    if (pending_.front() == ' ') pending_.erase(0, 1);
    skip_space_ = false;
  }
  const size_t complete = pending_.size() - utf8_incomplete_suffix(pending_);
  std::string text = utf8_replace_invalid(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string Detokenizer::flush() {
  return utf8_replace_invalid(std::exchange(pending_, {}));
}

// Knuth, Morris and Pratt: each matcher looks at each byte once, on average.
void StopStringFilter::Matcher::push(char c) {
  while (matched_bytes > 0 && (complete() || text[matched_bytes] != c)) {
    matched_bytes = borders[matched_bytes];
  }
  if (text[matched_bytes] == c) ++matched_bytes;
}

StopStringFilter::StopStringFilter(std::vector<std::string> stop_strings) {
  for (std::string& text : stop_strings) {
    Matcher matcher{std::move(text), {}, 0};
    const std::string& pattern = matcher.text;
    matcher.borders.assign(pattern.size() + 1, 0);
    for (size_t n = 2; n <= pattern.size(); ++n) {
      size_t border = matcher.borders[n - 1];
      while (border > 0 && pattern[border] != pattern[n - 1]) border = matcher.borders[border];
      if (pattern[border] == pattern[n - 1]) ++border;
      matcher.borders[n] = border;
    }
    matchers_.push_back(std::move(matcher));
  }
}

std::string StopStringFilter::push(std::string_view text, bool may_stop) {
  if (matched_) return {};
  for (const char c : text) {
    held_ += c;
    for (size_t i = 0; i < matchers_.size(); ++i) {
      Matcher& matcher = matchers_[i];
      if (matcher.text.empty()) continue;
      matcher.push(c);
      if (!matcher.complete()) continue;
      if (!may_stop) {
        matcher.matched_bytes = matcher.borders[matcher.matched_bytes];
      } else if (!matched_ || matcher.text.size() > matchers_[*matched_].text.size()) {
        matched_ = i;
      }
    }
    if (matched_) {
      held_.resize(held_.size() - matchers_[*matched_].text.size());
      return std::exchange(held_, {});
    }
  }
  size_t hold = 0;
  for (const Matcher& matcher : matchers_) hold = std::max(hold, matcher.matched_bytes);
  std::string safe = held_.substr(0, held_.size() - hold);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopStringFilter::flush() {
  return std::exchange(held_, {});
}

}  // namespace octavo::tokenizer
