#include "tokenizer/merge_builder.h"

#include <utility>

#include "base/format.h"
#include "base/log.h"

namespace octavo::tokenizer {

MergeBuilder::MergeBuilder(const Vocabulary& vocabulary, size_t capacity, const std::string& source,
                           const char* key)
    : vocabulary_(vocabulary),
      where_(format("{}: '{}'", source, key)),
      index_(vocabulary.pieces, vocabulary.size()),
      table_(capacity) {
  size_t duplicates = 0;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.pieces[i].empty()) continue;
    if (!index_.insert(static_cast<TokenId>(i))) ++duplicates;
  }
  if (duplicates != 0) {
    log_warning("{}: {} tokens are spelled like another: the last of each is used", source,
                duplicates);
  }
}

Status MergeBuilder::not_two_tokens() const {
  return data_loss(format("{}[{}] is not two tokens with a space between", where_, rank_));
}

Status MergeBuilder::add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return not_two_tokens();
  joined_.assign(left).append(right);
  const std::string_view parts[] = {left, right, joined_};
  TokenId ids[3];
  for (size_t part = 0; part < 3; ++part) {
    ids[part] = index_.find(parts[part]);
    if (ids[part] == kNoToken) {
      return data_loss(format("{}[{}]: '{}' is not in the vocabulary", where_, rank_, parts[part]));
    }
  }
  // Plain text must not be able to spell a control token.
  if (vocabulary_.is_control(ids[2])) {
    ++forbidden_;
  } else {
    table_.insert(ids[0], ids[1], {rank_, ids[2]});
  }
  ++rank_;
  return {};
}

MergeTable MergeBuilder::finish() {
  if (forbidden_ != 0) {
    log_warning("{}: {} merges that make control tokens are ignored", where_, forbidden_);
  }
  return std::move(table_);
}

}  // namespace octavo::tokenizer
