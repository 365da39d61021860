// CharsMap: SentencePiece's "precompiled_charsmap": which texts a normaliser replaces, and by what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::tokenizer {

class CharsMap {
 public:
  // From the bytes that a model file carries. `source` starts every error.
  static Result<CharsMap> parse(std::string_view bytes, const std::string& source);

  struct Match {
    size_t size_bytes;        // of the text that is replaced
    std::string_view target;  // what replaces it; of the map
  };
  enum class Prefer { kShortest, kLongest };
  // The entry that `text` starts with; nullopt where there is none.
  std::optional<Match> find(std::string_view text, Prefer prefer) const;

 private:
  CharsMap() = default;
  std::string_view target_at(uint32_t offset) const;

  // A double array: a trie with its edges in a hash without conflicts.
  std::vector<uint32_t> units_;
  std::string targets_;  // each ends in a NUL, none is long enough to blow a text up
};

}  // namespace octavo::tokenizer
