#include "grammar/token_trie.h"

#include <algorithm>

namespace octavo::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocab_size_(tokenizer.vocab_size()) {
  const std::span<const TokenId> stops = tokenizer.stop_ids();
  std::vector<Token> tokens;
  for (TokenId id = 0; id < vocab_size_; ++id) {
    if (tokenizer.is_control(id) || std::binary_search(stops.begin(), stops.end(), id)) continue;
    std::string bytes = tokenizer.token_bytes(id, false);
    if (bytes.empty()) continue;
    longest_token_ = std::max(longest_token_, static_cast<uint32_t>(bytes.size()));
    tokens.push_back({std::move(bytes), id});
  }
  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  build(tokens);
}

void TokenTrie::build(const std::vector<Token>& tokens) {
  std::vector<uint32_t> path;  // the nodes that are open, by depth
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      const Node& node = nodes_[path.back()];
      nodes_[path.back()].subtree_end = static_cast<uint32_t>(nodes_.size());
      const uint64_t kinds = node.kinds_below | kind_of(node.byte);
      path.pop_back();
      if (!path.empty()) nodes_[path.back()].kinds_below |= kinds;
    }
  };
  std::string_view before;
  for (const auto& [bytes, id] : tokens) {
    const size_t most = std::min(before.size(), bytes.size());
    const auto same =
        std::mismatch(before.begin(), before.begin() + static_cast<ptrdiff_t>(most), bytes.begin());
    close(static_cast<size_t>(same.first - before.begin()));
    while (path.size() < bytes.size()) {
      const auto depth = static_cast<uint32_t>(path.size());
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, 0, static_cast<uint32_t>(tokens_.size()), depth, static_cast<uint8_t>(bytes[depth])});
    }
    tokens_.push_back(id);
    before = bytes;
  }
  close(0);
  nodes_.push_back({0, 0, static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace octavo::grammar
