#include "tokenizer/special_tokens.h"

#include <algorithm>

namespace octavo::tokenizer {

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  const auto bytes_of = [&](TokenId id) { return vocabulary.bytes[static_cast<size_t>(id)]; };
  // From the last id down, so that of equal tokens the last one is kept.
  for (auto id = static_cast<TokenId>(vocabulary.size()) - 1; id >= 0; --id) {
    const bool special = vocabulary.is_control(id) || vocabulary.is_user_defined(id);
    if (special && !bytes_of(id).empty()) sorted_.push_back(id);
  }
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [&](TokenId a, TokenId b) { return bytes_of(a) < bytes_of(b); });
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(),
                            [&](TokenId a, TokenId b) { return bytes_of(a) == bytes_of(b); }),
                sorted_.end());
  for (const TokenId id : sorted_) {
    starts_token_[static_cast<unsigned char>(bytes_of(id).front())] = true;
  }
}

std::vector<SpecialTokens::Match> SpecialTokens::find_all(std::string_view text,
                                                          std::span<const TextSpan> plain) const {
  std::vector<Match> matches;
  auto span = plain.begin();
  for (size_t pos = 0; pos < text.size();) {
    if (!starts_token_[static_cast<unsigned char>(text[pos])]) {
      ++pos;
      continue;
    }
    while (span != plain.end() && (span->end <= pos || span->begin == span->end)) ++span;
    size_t control_end = text.size();
    if (span != plain.end()) control_end = span->begin <= pos ? 0 : span->begin;
    const std::optional<Match> match = match_at(text, pos, control_end);
    if (match) matches.push_back(*match);
    pos = match ? match->span.end : pos + 1;
  }
  return matches;
}

std::optional<SpecialTokens::Match> SpecialTokens::match_at(std::string_view text, size_t pos,
                                                            size_t control_end) const {
  std::optional<Match> longest;
  // The tokens from `begin` to `end` start with the `depth` bytes of the text from `pos`.
  auto begin = sorted_.begin();
  auto end = sorted_.end();
  for (size_t depth = 0;; ++depth) {
    const auto bytes_of = [&](TokenId id) { return vocabulary_.bytes[static_cast<size_t>(id)]; };
    if (bytes_of(*begin).size() == depth) {
      const bool counts = vocabulary_.is_user_defined(*begin) || pos + depth <= control_end;
      if (counts) longest = Match{{pos, pos + depth}, *begin};
      ++begin;
    }
    if (pos + depth == text.size()) break;
    const auto next_byte = [&](TokenId id) {
      return static_cast<unsigned char>(bytes_of(id)[depth]);
    };
    const auto wanted = static_cast<unsigned char>(text[pos + depth]);
    begin = std::lower_bound(begin, end, wanted,
                             [&](TokenId id, unsigned char byte) { return next_byte(id) < byte; });
    end = std::upper_bound(begin, end, wanted,
                           [&](unsigned char byte, TokenId id) { return byte < next_byte(id); });
    if (begin == end) break;
  }
  return longest;
}

}  // namespace octavo::tokenizer
