// CharSet: a set of Unicode characters as ranges, and the UTF-8 byte sequences that spell it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace octavo::grammar {

struct CharRange {
  char32_t first = 0;
  char32_t last = 0;
};

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);

  // Of all characters, which surrogates are not.
  CharSet complement() const;
  CharSet without(const CharSet& other) const;

  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }

  // Ascending, with gaps between them.
  const std::vector<CharRange>& ranges() const { return ranges_; }

 private:
  std::vector<CharRange> ranges_;
};

// Sequences of `size` bytes, each within its range.
struct Utf8Range {
  struct Bytes {
    uint8_t first = 0;
    uint8_t last = 0;
  };
  int size = 0;
  std::array<Bytes, 4> bytes;
};

std::vector<Utf8Range> utf8_ranges(const CharSet& set);

}  // namespace octavo::grammar
