#include "tokenizer/byte_trie.h"

#include <algorithm>

namespace octavo::tokenizer {

ByteTrie::ByteTrie(const StringTable& strings, std::span<const TokenId> ids) {
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  std::vector<Entry> entries;
  entries.reserve(ids.size());
  for (const TokenId id : ids) {
    const std::string_view text = strings[static_cast<size_t>(id)];
    if (!text.empty()) entries.push_back({text, id});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });

  // Each node stands for the entries [begin, end), which share their first `depth` bytes.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  nodes_.emplace_back();
  labels_ += '\0';
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto [begin, end, depth] = ranges[i];
    while (begin < end && entries[begin].text.size() == depth) nodes_[i].id = entries[begin++].id;
    nodes_[i].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = entries[begin].text[depth];
      size_t next = begin;
      while (next < end && entries[next].text[depth] == label) ++next;
      ranges.push_back({begin, next, depth + 1});
      nodes_.emplace_back();
      labels_ += label;
      ++nodes_[i].num_children;
      begin = next;
    }
  }
}

}  // namespace octavo::tokenizer
