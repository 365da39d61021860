#include "tokenizer/spm_text_model.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/byte_tokens.h"

namespace octavo::tokenizer {
std::string SpmNormalizer::apply(std::string_view text, Before before) const {
  std::string out;
  const bool adds_space = prefix == Prefix::kAlways ||
                          (prefix == Prefix::kNotAfterText && before != Before::kTextToken);
  bool after_space = remove_extra_whitespaces;  // a space here would be one too many
  bool started = false;
  while (!text.empty()) {
    const auto match = map ? map->find(text, CharsMap::Prefer::kLongest) : std::nullopt;
    const size_t size = match ? match->size_bytes : utf8_decode(text, 0).size_bytes;
    std::string_view part = match ? match->target : text.substr(0, size);
    text.remove_prefix(size);
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    if (!started && adds_space && !prefix_is_suffix) out += kSpelledSpace;
    started = true;
    for (const char c : part) {
      if (c == ' ') {
        out += kSpelledSpace;
      } else {
        out += c;
      }
    }
    after_space = remove_extra_whitespaces && part.ends_with(' ');
  }
  if (remove_extra_whitespaces) {
    while (out.ends_with(kSpelledSpace)) out.resize(out.size() - kSpelledSpace.size());
  }
  if (started && adds_space && prefix_is_suffix) out += kSpelledSpace;
  return out;
}

UnigramModel make_spm_unigram(const Vocabulary& vocabulary, const std::vector<float>& scores) {
  const auto is_kind = [&](size_t i, TokenKind kind) { return vocabulary.kinds[i] == kind; };
  UnigramModel::Options options{.single_precision = true};
  float lowest = 0;
  bool any = false;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    options.byte_fallback = options.byte_fallback || is_kind(i, TokenKind::kByte);
    if (is_kind(i, TokenKind::kUnknown)) options.unknown = static_cast<TokenId>(i);
    if (!is_kind(i, TokenKind::kNormal)) continue;
    lowest = any ? std::min(lowest, scores[i]) : scores[i];
    any = true;
  }
  // Only normal tokens count for the score of what is unknown.
  std::vector<double> used(scores.size(), lowest);
  std::vector<TokenId> tokens;
  for (const TokenId id : vocabulary.text_tokens) {
    const auto i = static_cast<size_t>(id);
    if (is_kind(i, TokenKind::kByte) || is_kind(i, TokenKind::kUnused)) continue;
    if (is_kind(i, TokenKind::kNormal)) used[i] = scores[i];
    tokens.push_back(id);
  }
  return {vocabulary, tokens, std::move(used), options};
}

}  // namespace octavo::tokenizer
