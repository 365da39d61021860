// TokenTrie: the texts of a vocabulary as a tree of bytes, laid out in the order in which it is
// walked. Control tokens and those that end an answer are no text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::grammar {

class TokenTrie {
 public:
  struct Node {
    uint64_t kinds_below = 0;  // kind_of() of all bytes below this node, a bit each
    uint32_t subtree_end = 0;  // the node after all below this one
    uint32_t first_token = 0;  // of `tokens`; they end where the next node's begin
    uint32_t depth = 0;        // bytes before this node's own
    uint8_t byte = 0;
  };

  // Four bytes are of a kind.
  static uint64_t kind_of(uint8_t byte) { return uint64_t{1} << (byte / 4); }

  explicit TokenTrie(const Tokenizer& tokenizer);

  // In depth-first order, without the root; the last one is a sentinel and no part of it.
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const TokenId> tokens(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  // Of the node and all below it.
  std::span<const TokenId> tokens_of_subtree(size_t node) const {
    const uint32_t end = nodes_[nodes_[node].subtree_end].first_token;
    return std::span(tokens_).subspan(nodes_[node].first_token, end - nodes_[node].first_token);
  }
  int64_t vocab_size() const { return vocab_size_; }
  uint32_t longest_token() const { return longest_token_; }  // in bytes

 private:
  struct Token {
    std::string bytes;
    TokenId id = 0;
  };
  void build(const std::vector<Token>& tokens);

  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  int64_t vocab_size_ = 0;
  uint32_t longest_token_ = 0;
};

}  // namespace octavo::grammar
