#include "grammar/char_set.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace octavo::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr CharRange kSurrogates = {0xD800, 0xDFFF};

// Characters [first, last] of one length in UTF-8, cut where continuation bytes would not run over
// all their values.
void append_aligned(std::vector<Utf8Range>& out, char32_t first, char32_t last) {
  for (int bits = 6; bits <= 18; bits += 6) {
    const char32_t low = (char32_t{1} << bits) - 1;
    if ((first & ~low) == (last & ~low)) break;
    if ((first & low) != 0) {
      append_aligned(out, first, first | low);
      append_aligned(out, (first | low) + 1, last);
      return;
    }
    if ((last & low) != low) {
      append_aligned(out, first, (last & ~low) - 1);
      append_aligned(out, last & ~low, last);
      return;
    }
  }
  std::string begin;
  std::string end;
  utf8_append(begin, first);
  utf8_append(end, last);
  Utf8Range range;
  range.size = static_cast<int>(begin.size());
  for (size_t i = 0; i < begin.size(); ++i) {
    range.bytes[i] = {static_cast<uint8_t>(begin[i]), static_cast<uint8_t>(end[i])};
  }
  out.push_back(range);
}

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) add(range.first, range.last);
}

void CharSet::add(char32_t first, char32_t last) {
  auto begin = std::lower_bound(
      ranges_.begin(), ranges_.end(), first,
      [](const CharRange& range, char32_t value) { return range.last + 1 < value; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CharSet::add(const CharSet& other) {
  for (const CharRange& range : other.ranges_) add(range.first, range.last);
}

CharSet CharSet::complement() const {
  CharSet covered = *this;
  covered.add(kSurrogates.first, kSurrogates.last);
  CharSet result;
  char32_t next = 0;
  for (const CharRange& range : covered.ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) result.ranges_.push_back({next, kLast});
  return result;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CharSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CharRange& range) { return range.first <= c && c <= range.last; });
}

std::vector<Utf8Range> utf8_ranges(const CharSet& set) {
  constexpr CharRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLast}};
  std::vector<Utf8Range> result;
  for (const CharRange& range : set.ranges()) {
    for (const CharRange& length : kLengths) {
      const char32_t first = std::max(range.first, length.first);
      const char32_t last = std::min(range.last, length.last);
      if (first <= last) append_aligned(result, first, last);
    }
  }
  return result;
}

}  // namespace octavo::grammar
