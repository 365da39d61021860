#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace octavo::tokenizer {
namespace {

std::vector<SpecialTokens::Entry> raw_text_entries(const Vocabulary& vocabulary) {
  std::vector<SpecialTokens::Entry> entries;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool raw = vocabulary.is_control(id) ||
                     (vocabulary.is_user_defined(id) && !vocabulary.rules_of(id).normalized);
    if (raw) entries.push_back({std::string(vocabulary.bytes[i]), id});
  }
  return entries;
}

// The start of the character that ends at `end` (> 0).
size_t character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  return begin + utf8_decode(text, begin).size_bytes == end ? begin : end - 1;
}

// \w as Unicode's annex on regular expressions has it.
bool is_word_at(std::string_view text, size_t pos) {
  const Utf8Char c = utf8_decode(text, pos);
  if (!c.valid) return false;
  const char32_t p = c.code_point;
  const Category found = category(p);
  const bool joiner = p == 0x200C || p == 0x200D;
  const bool encircled_letter = (p >= 0x24B6 && p <= 0x24E9) || (p >= 0x1F130 && p <= 0x1F149) ||
                                (p >= 0x1F150 && p <= 0x1F169) || (p >= 0x1F170 && p <= 0x1F189);
  return (found >= Category::kLu && found <= Category::kNl) || found == Category::kPc || joiner ||
         encircled_letter;
}

bool is_within_word(std::string_view text, const TextSpan& span) {
  return (span.begin > 0 && is_word_at(text, character_before(text, span.begin))) ||
         (span.end < text.size() && is_word_at(text, span.end));
}

// `span` with the spaces around it that `rules` let it take, none of them before `floor`.
TextSpan with_spaces(std::string_view text, TextSpan span, MatchRules rules, size_t floor) {
  while (rules.strip_left && span.begin > floor) {
    const size_t begin = character_before(text, span.begin);
    if (!char_at(text, begin).is(kSpace)) break;
    span.begin = std::max(begin, floor);
  }
  while (rules.strip_right && span.end < text.size()) {
    const TextChar c = char_at(text, span.end);
    if (!c.is(kSpace)) break;
    span.end += c.size_bytes;
  }
  return span;
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : SpecialTokens(vocabulary, raw_text_entries(vocabulary)) {}

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary, std::vector<Entry> entries)
    : vocabulary_(vocabulary), entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
  // Reversed, so that of equal texts the last one is kept.
  std::reverse(entries_.begin(), entries_.end());
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.text == b.text; }),
                 entries_.end());
  for (const Entry& entry : entries_) {
    starts_token_[static_cast<unsigned char>(entry.text.front())] = true;
  }
}

std::vector<SpecialTokens::Match> SpecialTokens::find_all(std::string_view text,
                                                          std::span<const TextSpan> plain) const {
  std::vector<Match> matches;
  auto span = plain.begin();
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!starts_token_[static_cast<unsigned char>(text[pos])]) {
      ++pos;
      continue;
    }
    while (span != plain.end() && (span->end <= pos || span->begin == span->end)) ++span;
    size_t control_end = text.size();
    if (span != plain.end()) control_end = span->begin <= pos ? 0 : span->begin;
    Match match = match_at(text, pos, control_end);
    if (match.id == kNoToken) {
      ++pos;
      continue;
    }
    // A token that is found within a word hides the shorter ones there.
    const MatchRules rules = vocabulary_.rules_of(match.id);
    pos = match.span.end;
    if (rules.single_word && is_within_word(text, match.span)) continue;
    match.span = with_spaces(text, match.span, rules, done);
    pos = done = match.span.end;
    matches.push_back(match);
  }
  return matches;
}

SpecialTokens::Match SpecialTokens::match_at(std::string_view text, size_t pos,
                                             size_t control_end) const {
  Match longest;
  // The entries from `begin` to `end` start with the `depth` bytes of the text from `pos`.
  auto begin = entries_.begin();
  auto end = entries_.end();
  for (size_t depth = 0;; ++depth) {
    if (begin->text.size() == depth) {
      const bool counts = vocabulary_.is_user_defined(begin->id) || pos + depth <= control_end;
      if (counts) longest = Match{{pos, pos + depth}, begin->id};
      ++begin;
    }
    if (pos + depth == text.size()) break;
    const auto next_byte = [&](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[depth]);
    };
    const auto wanted = static_cast<unsigned char>(text[pos + depth]);
    begin = std::lower_bound(begin, end, wanted, [&](const Entry& entry, unsigned char byte) {
      return next_byte(entry) < byte;
    });
    end = std::upper_bound(begin, end, wanted, [&](unsigned char byte, const Entry& entry) {
      return byte < next_byte(entry);
    });
    if (begin == end) break;
  }
  return longest;
}

}  // namespace octavo::tokenizer
