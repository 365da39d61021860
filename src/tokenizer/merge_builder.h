// MergeBuilder: the merges of a byte-level vocabulary as a file lists them, checked, to a
// MergeTable.
#pragma once

#include <string>
#include <string_view>

#include "octavo/status.h"
#include "tokenizer/bpe.h"

namespace octavo::tokenizer {

class MergeBuilder {
 public:
  // Errors name `source` and `key`. `vocabulary` must outlive it.
  MergeBuilder(const Vocabulary& vocabulary, size_t capacity, const std::string& source,
               const char* key);

  // The next merge, by the spelling of the tokens. The first has rank 0.
  Status add(std::string_view left, std::string_view right);
  // The error that the next merge is none.
  Status not_two_tokens() const;

  MergeTable finish();

 private:
  const Vocabulary& vocabulary_;
  std::string where_;
  StringIndex index_;
  MergeTable table_;
  std::string joined_;
  uint32_t rank_ = 0;
  size_t forbidden_ = 0;
};

}  // namespace octavo::tokenizer
