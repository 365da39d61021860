// Vocabulary: the tokens of a model, as data. Each token has a spelling (how the file writes it)
// and the bytes it stands for; which bytes those are is for the kind of vocabulary to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

inline constexpr TokenId kNoToken = -1;

// Strings by index, in one allocation.
class StringTable {
 public:
  void add(std::string_view text) {
    characters_ += text;
    ends_.push_back(characters_.size());
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(characters_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string characters_;
  std::vector<size_t> ends_;
};

// Finds the index of a string of a table, which must outlive it. Of equal strings the one inserted
// last is found.
class StringIndex {
 public:
  StringIndex(const StringTable& strings, size_t capacity);
  bool insert(TokenId id);                    // whether no equal string was there
  TokenId find(std::string_view text) const;  // kNoToken where there is none

 private:
  struct Slot {
    TokenId id = kNoToken;
    uint32_t hash = 0;
  };
  size_t slot_of(std::string_view text, uint64_t hash) const;

  const StringTable* strings_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

// The values that GGUF gives them.
enum class TokenKind : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// How a special token is looked for in a text, where that is not just its bytes.
struct MatchRules {
  bool strip_left = false;   // takes the spaces before it
  bool strip_right = false;  // takes the spaces after it
  bool single_word = false;  // not within a word
  bool normalized = false;   // looked for in the normalised text, unless it is a control token
};

struct Vocabulary {
  StringTable pieces;  // the spellings
  StringTable bytes;   // what the tokens stand for
  std::vector<TokenKind> kinds;
  // The tokens that plain text can become: not control, not user-defined (those are looked for in
  // the raw text), and spelled as this kind of vocabulary spells bytes.
  std::vector<TokenId> text_tokens;
  std::unordered_map<TokenId, MatchRules> match_rules;  // of special tokens; none: all false

  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  TokenId padding = kNoToken;
  std::vector<TokenId> prefix;  // what is put before a text: the BOS, where there is any
  std::vector<TokenId> suffix;
  std::vector<TokenId> stop_ids;  // ascending
  // A text is encoded with a space put before it; decoding takes that away.
  bool space_prefix = false;

  size_t size() const { return kinds.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size(); }
  // Control tokens, and the unknown token: not a part of any text.
  bool is_control(TokenId id) const {
    const TokenKind kind = kinds[static_cast<size_t>(id)];
    return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  }
  bool is_user_defined(TokenId id) const {
    return kinds[static_cast<size_t>(id)] == TokenKind::kUserDefined;
  }
  MatchRules rules_of(TokenId id) const {
    const auto found = match_rules.find(id);
    return found == match_rules.end() ? MatchRules{} : found->second;
  }
};

}  // namespace octavo::tokenizer
