// MaskTable: which tokens may come next, by where a text stands in a grammar. The vocabulary is
// walked once for each place; places that differ only in what lies deep in their stacks share the
// result, with a short list of tokens that end too much to be decided without the rest.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/token_trie.h"
#include "octavo/status.h"

namespace octavo::grammar {

struct TokenMask {
  std::vector<uint64_t> allowed;  // a bit for each token of the vocabulary
  std::vector<TokenId> open;      // not in `allowed`, but the rest of the stack may allow them
};

class MaskTable {
 public:
  // Both must outlive this.
  MaskTable(const Automaton& automaton, const TokenTrie& trie);

  // Of texts that stand at `state`. Safe from several threads. An error where the grammar is so
  // ambiguous that it would take too long.
  Result<std::shared_ptr<const TokenMask>> find(const State& state, const Frames& frames);

 private:
  // A state over frames that are cut, and what each byte leads to, as far as it was asked.
  struct LocalState {
    State state;
    std::array<uint32_t, 256> next;
    std::optional<uint64_t> loops;  // the kinds of bytes that all lead back to it
  };
  enum class Verdict : uint8_t { kNo, kYes, kOpen };  // on what has led to a state

  FrameId cut(FrameId frame, const Frames& frames);
  uint32_t canonical_count(const Frame& frame) const;
  uint32_t intern(State state);
  uint32_t advance(uint32_t id, uint8_t byte);
  uint64_t loops(uint32_t id);
  std::pair<int, int> alike(const State& state, uint8_t byte) const;
  Result<std::shared_ptr<const TokenMask>> walk(uint32_t start);
  bool holds_over(size_t part) const;
  void clear();

  const Automaton& automaton_;
  const TokenTrie& trie_;
  std::mutex mutex_;  // guards what follows
  Stepper stepper_;
  Frames frames_;
  std::vector<LocalState> states_;
  std::vector<Verdict> verdicts_;  // by state
  bool overflow_ = false;          // a state had too many places
  size_t num_places_ = 0;          // of all states, and what open tokens of masks take
  std::map<std::tuple<std::vector<Config>, bool, bool>, uint32_t> ids_;
  std::map<uint32_t, std::shared_ptr<const TokenMask>> masks_;  // by state
  std::vector<uint32_t> path_;                                  // of a walk, by depth
};

}  // namespace octavo::grammar
