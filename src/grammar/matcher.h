// Matcher: one answer on its way through a grammar. A copy goes its own way.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/mask_table.h"
#include "grammar/token_trie.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::grammar {

// A grammar and the masks of one vocabulary.
struct CompiledGrammar {
  CompiledGrammar(Automaton own, std::shared_ptr<const TokenTrie> vocabulary)
      : automaton(std::move(own)), trie(std::move(vocabulary)), masks(automaton, *trie) {}

  const Automaton automaton;
  const std::shared_ptr<const TokenTrie> trie;
  MaskTable masks;
};

class Matcher {
 public:
  // `tokenizer` must outlive this.
  Matcher(std::shared_ptr<CompiledGrammar> grammar, const Tokenizer& tokenizer);

  // Sets the logits of all tokens that may not come next to minus infinity. Tokens that end an
  // answer may come where the text may end.
  Status mask(std::span<float> logits);

  // Goes on by a token that mask() allowed. Others leave nothing that could follow.
  void accept(TokenId id);

  // The grammar cannot be followed: mask() is an error from here on.
  bool lost() const { return state_.overflow; }

  // The text is whole, and nothing but its end can follow.
  bool must_end() const { return ended_ || (state_.accepts && state_.configs.empty()); }
  bool may_end() const { return ended_ || state_.accepts; }

 private:
  State advance(const State& from, std::string_view bytes);
  bool is_stop(TokenId id) const;
  void drop_unused_frames();

  std::shared_ptr<CompiledGrammar> grammar_;
  const Tokenizer* tokenizer_;
  Stepper stepper_;
  Frames frames_;
  State state_;
  bool ended_ = false;  // a token that ends answers came
  size_t max_frames_;
};

}  // namespace octavo::grammar
