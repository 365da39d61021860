#include "tokenizer/hf_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/merge_builder.h"

namespace octavo::tokenizer {
namespace {

// Bytes that no UTF-8 text has: 0xC0, 0xC1, 0xF5 to 0xFF.
constexpr int kBytesOutsideUtf8 = 13;

Result<bool> read_flag(const Json& json, const char* key, const std::string& source) {
  if (json_find(json, key) == nullptr) return false;
  return json_bool(json, key, source);
}

// Settings that change ids, and that BpeModel does not have.
Status check_bpe(const Json& model, const std::string& source) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (json_find(model, key) == nullptr) continue;
    const std::string affix = OCTAVO_TRY(json_string(model, key, source));
    if (!affix.empty()) return unsupported(format("{}: '{}' is '{}'", source, key, affix));
  }
  if (json_find(model, "dropout") != nullptr) {
    const double dropout = OCTAVO_TRY(json_double(model, "dropout", source));
    if (dropout != 0) return unsupported(format("{}: 'dropout' is {}", source, dropout));
  }
  return {};
}

Result<MergeTable> read_merges(const Json& model, const Vocabulary& vocabulary,
                               const std::string& source) {
  const JsonArray& merges = *OCTAVO_TRY(json_array(model, "merges", source));
  MergeBuilder builder(vocabulary, merges.size(), source, "merges");
  for (const Json& merge : merges) {
    std::string_view left;
    std::string_view right;
    if (const auto* text = merge.if_string()) {
      const std::string_view pair = to_view(*text);
      const size_t space = pair.find(' ');
      if (space != std::string_view::npos && pair.find(' ', space + 1) == std::string_view::npos) {
        left = pair.substr(0, space);
        right = pair.substr(space + 1);
      }
    } else if (const auto* parts = merge.if_array(); parts != nullptr && parts->size() == 2 &&
                                                     (*parts)[0].is_string() &&
                                                     (*parts)[1].is_string()) {
      left = to_view((*parts)[0].get_string());
      right = to_view((*parts)[1].get_string());
    }
    OCTAVO_TRY(builder.add(left, right));
  }
  return builder.finish();
}

// kNoToken where the model has none.
Result<TokenId> read_unknown_token(const Json& model, const Vocabulary& vocabulary,
                                   const std::string& source) {
  constexpr const char* kKey = "unk_token";
  if (json_find(model, kKey) == nullptr) return kNoToken;
  const std::string piece = OCTAVO_TRY(json_string(model, kKey, source));
  const TokenId id = find_piece(vocabulary, piece);
  if (id == kNoToken) {
    return data_loss(
        format("{}: '{}' is '{}', which is not in the vocabulary", source, kKey, piece));
  }
  return id;
}

Result<HfModel> read_bpe(const Json& model, const Vocabulary& vocabulary, bool byte_level,
                         const std::string& source) {
  OCTAVO_TRY(check_bpe(model, source));
  BpeModel::Options options;
  options.ignore_merges = OCTAVO_TRY(read_flag(model, "ignore_merges", source));
  options.byte_fallback = OCTAVO_TRY(read_flag(model, "byte_fallback", source));
  options.fuse_unknown = OCTAVO_TRY(read_flag(model, "fuse_unk", source));
  options.unknown = OCTAVO_TRY(read_unknown_token(model, vocabulary, source));
  if (!byte_level) options.alphabet = BpeModel::Alphabet::kCharacters;
  MergeTable merges = OCTAVO_TRY(read_merges(model, vocabulary, source));
  BpeModel bpe(vocabulary, std::move(merges), options);
  if (byte_level && options.byte_fallback && bpe.missing_bytes() > kBytesOutsideUtf8) {
    return unsupported(format("{}: 'byte_fallback' of a 'ByteLevel' vocabulary that lacks {} bytes",
                              source, bpe.missing_bytes()));
  }
  return HfModel(std::move(bpe));
}

// The rows of "vocab" are [piece, score]; that they are pairs, and some, was checked with the
// vocabulary. Added tokens get a score that no sum will ever contain.
Result<std::vector<double>> read_scores(const Json& model, const Vocabulary& vocabulary,
                                        const std::string& source) {
  std::vector<double> scores;
  for (const Json& row : *OCTAVO_TRY(json_array(model, "vocab", source))) {
    boost::system::error_code error;
    const double score = row.get_array()[1].to_number<double>(error);
    if (error || !std::isfinite(score)) {
      return data_loss(format("{}: 'vocab'[{}]: the score is not a number", source, scores.size()));
    }
    scores.push_back(score);
  }
  scores.resize(vocabulary.size(), *std::min_element(scores.begin(), scores.end()));
  return scores;
}

Result<HfModel> read_unigram(const Json& model, const Vocabulary& vocabulary,
                             const std::string& source) {
  if (!model.at("vocab").is_array()) {
    return data_loss(source + ": 'vocab' must be an array of pieces and scores");
  }
  UnigramModel::Options options;
  options.byte_fallback = OCTAVO_TRY(read_flag(model, "byte_fallback", source));
  std::vector<double> scores = OCTAVO_TRY(read_scores(model, vocabulary, source));
  const size_t num_pieces = model.at("vocab").get_array().size();
  if (json_find(model, "unk_id") != nullptr) {
    const int64_t id = OCTAVO_TRY(json_int(model, "unk_id", source));
    if (id < 0 || id >= static_cast<int64_t>(num_pieces)) {
      return data_loss(format("{}: 'unk_id' is {}, not 0 to {}", source, id, num_pieces - 1));
    }
    options.unknown = static_cast<TokenId>(id);
  }
  return HfModel(UnigramModel(vocabulary, vocabulary.text_tokens, std::move(scores), options));
}

Result<HfModel> read_word_piece(const Json& model, const Vocabulary& vocabulary,
                                const std::string& source) {
  WordPieceModel::Options options;
  options.continuing_prefix = OCTAVO_TRY(json_string(model, "continuing_subword_prefix", source));
  const int64_t most = OCTAVO_TRY(json_int(model, "max_input_chars_per_word", source));
  if (most < 1 || most > INT32_MAX) {
    return data_loss(format("{}: 'max_input_chars_per_word' is {}", source, most));
  }
  options.max_word_characters = static_cast<size_t>(most);
  options.unknown = OCTAVO_TRY(read_unknown_token(model, vocabulary, source));
  if (options.unknown == kNoToken) return data_loss(source + ": 'unk_token' is missing");
  return HfModel(WordPieceModel(vocabulary, std::move(options)));
}

}  // namespace

Result<HfModel> read_hf_model(const Json& model, const Vocabulary& vocabulary, bool byte_level,
                              const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(model, "type", source));
  if (type == "BPE") return read_bpe(model, vocabulary, byte_level, source);
  if (type != "Unigram" && type != "WordPiece") {
    return unsupported(
        format("{}: 'type' is '{}', not 'BPE', 'Unigram' or 'WordPiece'", source, type));
  }
  if (byte_level) {
    return unsupported(format("{}: '{}' with the pre-tokenizer 'ByteLevel'", source, type));
  }
  return type == "Unigram" ? read_unigram(model, vocabulary, source)
                           : read_word_piece(model, vocabulary, source);
}

}  // namespace octavo::tokenizer
