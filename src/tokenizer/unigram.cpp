#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/byte_tokens.h"

namespace octavo::tokenizer {
namespace {

// What SentencePiece takes off the worst score for a character that has no token.
constexpr double kUnknownPenalty = 10.0;

constexpr double kNoWay = -std::numeric_limits<double>::infinity();

}  // namespace

UnigramModel::UnigramModel(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
                           std::vector<double> scores, const Options& options)
    : scores_(std::move(scores)),
      trie_(vocabulary.pieces, tokens),
      index_(vocabulary.pieces, tokens.size()),
      options_(options),
      unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty),
      byte_ids_(find_byte_tokens(vocabulary)) {
  for (const TokenId id : tokens) index_.insert(id);
}

void UnigramModel::find_best_path(std::string_view piece, std::vector<Step>& steps) const {
  steps.assign(piece.size() + 1, {kNoWay, 0, kNoToken});
  steps[0].score = 0;
  for (size_t pos = 0; pos < piece.size();) {
    const double score_here = steps[pos].score;
    const size_t character_size = utf8_decode(piece, pos).size_bytes;
    bool has_character = false;
    const auto offer = [&](TokenId id, double token_score, size_t size) {
      double score = score_here + token_score;
      if (options_.single_precision) score = static_cast<float>(score);
      Step& step = steps[pos + size];
      if (step.score == kNoWay || score > step.score) step = {score, pos, id};
    };
    trie_.for_each_prefix(piece, pos, [&](TokenId id, size_t size) {
      offer(id, scores_[static_cast<size_t>(id)], size);
      has_character = has_character || size == character_size;
    });
    if (!has_character) offer(options_.unknown, unknown_score_, character_size);
    pos += character_size;
  }
}

// A run of what is unknown is one unknown token, or all its bytes.
void UnigramModel::append_token(std::string_view text, std::vector<TokenId>& ids) const {
  const TokenId id = index_.find(text);
  if (id != kNoToken) {
    ids.push_back(id);
    return;
  }
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool has_bytes =
      std::all_of(text.begin(), text.end(), [&](char byte) { return byte_id(byte) != kNoToken; });
  if (!options_.byte_fallback || !has_bytes) {
    if (options_.unknown != kNoToken) ids.push_back(options_.unknown);
    return;
  }
  for (const char byte : text) ids.push_back(byte_id(byte));
}

void UnigramModel::encode(std::string_view piece, Workspace& workspace,
                          std::vector<TokenId>& ids) const {
  find_best_path(piece, workspace.steps);
  auto& path = workspace.path;  // from right to left
  path.clear();
  bool after_unknown = false;
  for (size_t end = piece.size(); end > 0;) {
    const Step& step = workspace.steps[end];
    const bool is_unknown = step.id == options_.unknown;
    if (is_unknown && after_unknown) {
      path.back().begin = step.begin;
    } else {
      path.push_back({step.begin, end});
    }
    after_unknown = is_unknown;
    end = step.begin;
  }
  for (auto span = path.rbegin(); span != path.rend(); ++span) {
    append_token(piece.substr(span->begin, span->end - span->begin), ids);
  }
}

}  // namespace octavo::tokenizer
