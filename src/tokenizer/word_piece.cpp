#include "tokenizer/word_piece.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/utf8.h"

namespace octavo::tokenizer {
namespace {

// Hugging Face's cleanup pulls words that start so to the word before.
constexpr std::string_view kJoined[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};

bool is_inside_character(std::string_view text, size_t pos) {
  return pos < text.size() && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80;
}

}  // namespace

WordPieceModel::WordPieceModel(const Vocabulary& vocabulary, Options options)
    : options_(std::move(options)), index_(vocabulary.pieces, vocabulary.text_tokens.size()) {
  for (const TokenId id : vocabulary.text_tokens) {
    index_.insert(id);
    longest_bytes_ = std::max(longest_bytes_, vocabulary.pieces[static_cast<size_t>(id)].size());
  }
}

bool WordPieceModel::is_too_long(std::string_view word) const {
  size_t characters = 0;
  for (size_t pos = 0; pos < word.size(); pos += utf8_decode(word, pos).size_bytes) {
    if (++characters > options_.max_word_characters) return true;
  }
  return false;
}

TokenId WordPieceModel::find_longest(const std::string& prefix, std::string_view text,
                                     std::string& spelling, size_t& size_bytes) const {
  size_bytes = std::min(text.size(), longest_bytes_);
  spelling.assign(prefix).append(text, 0, size_bytes);
  for (; size_bytes > 0; --size_bytes) {
    if (is_inside_character(text, size_bytes)) continue;
    const std::string_view tried(spelling.data(), prefix.size() + size_bytes);
    if (const TokenId id = index_.find(tried); id != kNoToken) return id;
  }
  return kNoToken;
}

void WordPieceModel::encode(std::string_view word, Workspace& workspace,
                            std::vector<TokenId>& ids) const {
  const size_t before = ids.size();
  const std::string& start = options_.start_prefix;
  bool known = !is_too_long(word);
  for (size_t pos = 0; known && pos < word.size();) {
    const std::string_view rest = word.substr(pos);
    const bool continues = pos > 0;
    size_t size_bytes = 0;
    TokenId id = kNoToken;
    // What is spelled as a start within a word is not one.
    if (!continues || start.empty() || !rest.starts_with(start)) {
      id = find_longest(continues ? options_.continuing_prefix : start, rest, workspace.spelling,
                        size_bytes);
    }
    known = id != kNoToken;
    if (known) ids.push_back(id);
    pos += size_bytes;
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(options_.unknown);
}

std::string word_piece_text(std::string_view text, bool starts_word, bool cleanup) {
  const auto starts_text = [&](std::string_view joined) { return text.starts_with(joined); };
  const bool joins = cleanup && std::any_of(std::begin(kJoined), std::end(kJoined), starts_text);
  return (starts_word && !joins ? " " : "") + std::string(text);
}

}  // namespace octavo::tokenizer
