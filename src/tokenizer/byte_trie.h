// ByteTrie: finds every token that a text starts with, byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

class ByteTrie {
 public:
  // The tokens `ids` by their `strings`, of equal ones the last; empty ones are left out.
  ByteTrie(const StringTable& strings, std::span<const TokenId> ids);

  // Calls visit(id, size_bytes) for each token that starts at `pos`, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, size_t pos, Visit visit) const {
    uint32_t node = 0;
    for (size_t i = pos; i < text.size(); ++i) {
      const Node& parent = nodes_[node];
      if (parent.num_children == 0) return;
      const char* const labels = labels_.data() + parent.first_child;
      const void* const found = std::memchr(labels, text[i], parent.num_children);
      if (found == nullptr) return;
      node = parent.first_child + static_cast<uint32_t>(static_cast<const char*>(found) - labels);
      if (nodes_[node].id != kNoToken) visit(nodes_[node].id, i + 1 - pos);
    }
  }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    TokenId id = kNoToken;  // of the token that ends here
  };

  std::vector<Node> nodes_;  // the children of one node side by side, by label
  std::string labels_;       // [node]: the byte that leads to it
};

}  // namespace octavo::tokenizer
