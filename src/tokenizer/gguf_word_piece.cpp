#include "tokenizer/gguf_word_piece.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/hf_text_model.h"

namespace octavo::tokenizer {
namespace {

// Spellings of tokens that start a word begin with it; the others are as they are.
constexpr std::string_view kWordStart = kSpelledSpace;

// The id under `key`, else of the token that BERT's vocabularies call so.
Result<TokenId> read_token(const GgufSource& source, const char* key, std::string_view otherwise,
                           const Vocabulary& vocabulary) {
  const TokenId named = OCTAVO_TRY(read_gguf_token_id(source, key, vocabulary));
  if (named != kNoToken) return named;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary.pieces[i] == otherwise) return static_cast<TokenId>(i);
  }
  return data_loss(
      format("{}: '{}' is missing, and no token is '{}'", source.name, key, otherwise));
}

// A text stands between [CLS] and [SEP], unless the file wants it without.
Status read_tokens(const GgufSource& source, Vocabulary& vocabulary) {
  OCTAVO_TRY(read_gguf_named_tokens(source, false, vocabulary));
  const auto read = [&](const char* key, std::string_view otherwise) {
    return read_token(source, key, otherwise, vocabulary);
  };
  vocabulary.unknown = OCTAVO_TRY(read("tokenizer.ggml.unknown_token_id", "[UNK]"));
  const TokenId start = vocabulary.bos != kNoToken
                            ? vocabulary.bos
                            : OCTAVO_TRY(read("tokenizer.ggml.cls_token_id", "[CLS]"));
  const TokenId end = OCTAVO_TRY(read("tokenizer.ggml.seperator_token_id", "[SEP]"));
  for (const TokenId id : {vocabulary.unknown, start, end}) {
    vocabulary.kinds[static_cast<size_t>(id)] = TokenKind::kControl;
  }
  vocabulary.bos = start;
  const bool add_start = OCTAVO_TRY(read_gguf_flag(source, "tokenizer.ggml.add_bos_token", true));
  const bool add_end = OCTAVO_TRY(read_gguf_flag(source, "tokenizer.ggml.add_sep_token", true));
  vocabulary.prefix.assign(add_start ? 1 : 0, start);
  vocabulary.suffix.assign(add_end ? 1 : 0, end);
  return {};
}

// Fills bytes and text_tokens.
void fill_bytes(Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    std::string_view piece = vocabulary.pieces[i];
    if (vocabulary.is_control(id) || vocabulary.is_user_defined(id)) {
      vocabulary.bytes.add(piece);
      continue;
    }
    vocabulary.text_tokens.push_back(id);
    const bool starts_word = piece.starts_with(kWordStart);
    if (starts_word) piece.remove_prefix(kWordStart.size());
    vocabulary.bytes.add(word_piece_text(piece, starts_word, true));
  }
  vocabulary.space_prefix = true;
}

bool has_capitals(const Vocabulary& vocabulary) {
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  return std::any_of(vocabulary.text_tokens.begin(), vocabulary.text_tokens.end(), [&](TokenId id) {
    const std::string_view piece = vocabulary.pieces[static_cast<size_t>(id)];
    const bool is_placeholder = piece.starts_with('[') && piece.ends_with(']');  // [unused1]
    return !is_placeholder && std::any_of(piece.begin(), piece.end(), is_capital);
  });
}

// Files of before the keys existed do not say whether text is brought to lower case: it is where
// the vocabulary has no capitals.
Result<Normalizer> read_normalizer(const GgufSource& source, const Vocabulary& vocabulary) {
  const bool lowercase = OCTAVO_TRY(
      read_gguf_flag(source, "tokenizer.ggml.normalizer.lowercase", !has_capitals(vocabulary)));
  const bool strip_accents =
      OCTAVO_TRY(read_gguf_flag(source, "tokenizer.ggml.normalizer.strip_accents", lowercase));
  const Json json = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", strip_accents},
                     {"lowercase", lowercase}};
  return Normalizer::from_json(&json, source.name);
}

}  // namespace

Result<std::unique_ptr<TextModel>> load_gguf_word_piece(const GgufSource& source,
                                                        Vocabulary& vocabulary) {
  OCTAVO_TRY(read_tokens(source, vocabulary));
  fill_bytes(vocabulary);
  Normalizer normalizer = OCTAVO_TRY(read_normalizer(source, vocabulary));
  const Json words = {{"type", "BertPreTokenizer"}};
  HfPreTokenizer pre_tokenizer = OCTAVO_TRY(HfPreTokenizer::from_json(&words, source.name));
  WordPieceModel model(vocabulary, {.unknown = vocabulary.unknown,
                                    .start_prefix = std::string(kWordStart),
                                    .continuing_prefix = {}});
  return std::unique_ptr<TextModel>(
      std::make_unique<HfTextModel>(std::move(normalizer), SpecialTokens(vocabulary, {}),
                                    std::move(pre_tokenizer), std::move(model)));
}

}  // namespace octavo::tokenizer
