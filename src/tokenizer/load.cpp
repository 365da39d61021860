// Reads a tokenizer from GGUF metadata, checking everything that it says.
#include "tokenizer/load.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/gguf_word_piece.h"
#include "tokenizer/hf_text_model.h"
#include "tokenizer/merge_builder.h"
#include "tokenizer/model_tokenizer.h"
#include "tokenizer/spm_text_model.h"

namespace octavo::tokenizer {
namespace {

// What each token stands for, spelled in the alphabet of byte-level vocabularies. Control and
// user-defined tokens are spelled as they are.
void fill_byte_level_bytes(Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view piece = vocabulary.pieces[i];
    const bool as_it_is = vocabulary.is_control(id) || vocabulary.is_user_defined(id);
    const auto bytes = as_it_is ? std::nullopt : bytes_of_spelling(piece);
    vocabulary.bytes.add(bytes ? std::string_view(*bytes) : piece);
    if (bytes && !bytes->empty()) vocabulary.text_tokens.push_back(id);
  }
}

// A merge is written "A B"; A may itself start with a space.
Result<MergeTable> read_merges(const GgufSource& source, const Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.merges";
  const JsonArray& merges = *OCTAVO_TRY(json_array(source.metadata, kKey, source.name));
  MergeBuilder builder(vocabulary, merges.size(), source.name, kKey);
  for (const Json& merge : merges) {
    const std::string_view text = merge.is_string() ? to_view(merge.get_string()) : "";
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) return builder.not_two_tokens();
    OCTAVO_TRY(builder.add(text.substr(0, space), text.substr(space + 1)));
  }
  return builder.finish();
}

Result<std::string> read_pre_tokenizer_name(const GgufSource& source) {
  constexpr const char* kKey = "tokenizer.ggml.pre";
  if (json_find(source.metadata, kKey) != nullptr) {
    return json_string(source.metadata, kKey, source.name);
  }
  log_warning("{}: '{}' is missing: text may be cut otherwise than the model was trained with",
              source.name, kKey);
  return std::string("default");
}

Result<ChatTemplate> read_chat_template(const GgufSource& source) {
  for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_template.default"}) {
    if (json_find(source.metadata, key) == nullptr) continue;
    return parse_chat_template(OCTAVO_TRY(json_string(source.metadata, key, source.name)),
                               source.name);
  }
  return unsupported(source.name + ": the model has no chat template");
}

Result<BpeModel> read_bpe(const GgufSource& source, bool ignore_merges, Vocabulary& vocabulary) {
  fill_byte_level_bytes(vocabulary);
  MergeTable merges = OCTAVO_TRY(read_merges(source, vocabulary));
  BpeModel bpe(vocabulary, std::move(merges), {.ignore_merges = ignore_merges});
  log_debug("{}: {} tokens, {} of 256 bytes without one", source.name, vocabulary.size(),
            bpe.missing_bytes());
  return bpe;
}

Result<std::unique_ptr<TextModel>> load_byte_level(const GgufSource& source,
                                                   Vocabulary& vocabulary) {
  const std::string name = OCTAVO_TRY(read_pre_tokenizer_name(source));
  if (const PreTokenizer* known = find_pre_tokenizer(name)) {
    OCTAVO_TRY(read_gguf_named_tokens(source, known->add_bos, vocabulary));
    BpeModel bpe = OCTAVO_TRY(read_bpe(source, known->ignore_merges, vocabulary));
    return std::unique_ptr<TextModel>(std::make_unique<ByteLevelBpe>(*known, std::move(bpe)));
  }
  const RegexPreTokenizer* regex = find_regex_pre_tokenizer(name);
  if (regex == nullptr) {
    return unsupported(format("{}: pre-tokenizer '{}' is not supported", source.name, name));
  }
  OCTAVO_TRY(read_gguf_named_tokens(source, regex->add_bos, vocabulary));
  BpeModel bpe = OCTAVO_TRY(read_bpe(source, regex->ignore_merges, vocabulary));
  const Json nfc = {{"type", "NFC"}};
  return std::unique_ptr<TextModel>(std::make_unique<HfTextModel>(
      OCTAVO_TRY(Normalizer::from_json(regex->nfc ? &nfc : nullptr, source.name)),
      SpecialTokens(vocabulary, {}),
      OCTAVO_TRY(HfPreTokenizer::byte_level(regex->patterns, source.name)), std::move(bpe)));
}

Result<std::vector<float>> read_scores(const GgufSource& source, const Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  const JsonArray& scores = *OCTAVO_TRY(json_array(source.metadata, kKey, source.name));
  if (scores.size() != vocabulary.size()) {
    return data_loss(format("{}: '{}' has {} elements for {} tokens", source.name, kKey,
                            scores.size(), vocabulary.size()));
  }
  std::vector<float> values;
  values.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    boost::system::error_code error;
    const double score = scores[i].to_number<double>(error);
    if (error || !std::isfinite(score)) {
      return data_loss(format("{}: '{}'[{}] is not a number", source.name, kKey, i));
    }
    values.push_back(static_cast<float>(score));
  }
  return values;
}

// A character map is an array of bytes, signed or not.
Result<std::optional<CharsMap>> read_charsmap(const GgufSource& source) {
  constexpr const char* kKey = "tokenizer.ggml.precompiled_charsmap";
  if (json_find(source.metadata, kKey) == nullptr) return std::optional<CharsMap>();
  std::string bytes;
  for (const Json& value : *OCTAVO_TRY(json_array(source.metadata, kKey, source.name))) {
    boost::system::error_code error;
    const auto byte = value.to_number<int32_t>(error);
    if (error || byte < -128 || byte > 255) {
      return data_loss(format("{}: '{}'[{}] is no byte", source.name, kKey, bytes.size()));
    }
    bytes += static_cast<char>(byte);
  }
  if (bytes.empty()) return std::optional<CharsMap>();
  return std::optional(OCTAVO_TRY(CharsMap::parse(bytes, format("{}: '{}'", source.name, kKey))));
}

Result<SpmNormalizer> read_spaces(const GgufSource& source, Vocabulary& vocabulary) {
  vocabulary.space_prefix =
      OCTAVO_TRY(read_gguf_flag(source, "tokenizer.ggml.add_space_prefix", true));
  SpmNormalizer normalizer;
  using Prefix = SpmNormalizer::Prefix;
  normalizer.prefix = vocabulary.space_prefix ? Prefix::kAlways : Prefix::kNever;
  return normalizer;
}

// SentencePiece's byte-pair encoding, by scores.
Result<std::unique_ptr<TextModel>> load_scored_bpe(const GgufSource& source,
                                                   Vocabulary& vocabulary) {
  OCTAVO_TRY(read_gguf_named_tokens(source, true, vocabulary));
  SpmNormalizer normalizer = OCTAVO_TRY(read_spaces(source, vocabulary));
  fill_spm_bytes(vocabulary);
  SpmModel model(vocabulary, OCTAVO_TRY(read_scores(source, vocabulary)), kNoToken);
  return std::unique_ptr<TextModel>(
      std::make_unique<SpmTextModel>(std::move(normalizer), std::move(model)));
}

Result<std::unique_ptr<TextModel>> load_unigram(const GgufSource& source, Vocabulary& vocabulary) {
  OCTAVO_TRY(read_gguf_named_tokens(source, false, vocabulary));
  SpmNormalizer normalizer = OCTAVO_TRY(read_spaces(source, vocabulary));
  fill_spm_bytes(vocabulary);
  const std::vector<float> scores = OCTAVO_TRY(read_scores(source, vocabulary));
  normalizer.map = OCTAVO_TRY(read_charsmap(source));
  normalizer.remove_extra_whitespaces =
      OCTAVO_TRY(read_gguf_flag(source, "tokenizer.ggml.remove_extra_whitespaces", false));
  return std::unique_ptr<TextModel>(
      std::make_unique<SpmTextModel>(std::move(normalizer), make_spm_unigram(vocabulary, scores)));
}

// Gemma 4's: byte-pair encoding of text whose spaces are spelled U+2581, with tokens for bytes.
Result<std::unique_ptr<TextModel>> load_spelled_bpe(const GgufSource& source,
                                                    Vocabulary& vocabulary) {
  OCTAVO_TRY(read_gguf_named_tokens(source, true, vocabulary));
  fill_spm_bytes(vocabulary);
  MergeTable merges = OCTAVO_TRY(read_merges(source, vocabulary));
  BpeModel bpe(vocabulary, std::move(merges),
               {.alphabet = BpeModel::Alphabet::kCharacters,
                .byte_fallback = true,
                .unknown = vocabulary.unknown,
                .fuse_unknown = true});
  const Json spaces = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpelledSpace}};
  Normalizer normalizer = OCTAVO_TRY(Normalizer::from_json(&spaces, source.name));
  HfPreTokenizer uncut = OCTAVO_TRY(HfPreTokenizer::from_json(nullptr, source.name));
  return std::unique_ptr<TextModel>(std::make_unique<HfTextModel>(
      std::move(normalizer), SpecialTokens(vocabulary, {}), std::move(uncut), std::move(bpe)));
}

struct ModelRow {
  std::string_view name;
  Result<std::unique_ptr<TextModel>> (*load)(const GgufSource& source, Vocabulary& vocabulary);
};

// THE table of what `tokenizer.ggml.model` may hold.
constexpr ModelRow kModels[] = {
    {"gpt2", load_byte_level},      {"llama", load_scored_bpe},   {"t5", load_unigram},
    {"bert", load_gguf_word_piece}, {"gemma4", load_spelled_bpe},
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const Json& metadata,
                                                       const std::string& source_name) {
  const GgufSource source{metadata, source_name};
  const std::string model = OCTAVO_TRY(json_string(metadata, "tokenizer.ggml.model", source_name));
  const auto row = std::find_if(std::begin(kModels), std::end(kModels),
                                [&](const ModelRow& known) { return known.name == model; });
  if (row == std::end(kModels)) {
    return unsupported(format("{}: tokenizer model '{}' is not supported", source_name, model));
  }
  auto vocabulary = std::make_unique<Vocabulary>(OCTAVO_TRY(read_gguf_vocabulary(source)));
  auto text_model = OCTAVO_TRY(row->load(source, *vocabulary));
  add_known_stops(source, *vocabulary);
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(source)));
}

}  // namespace octavo::tokenizer
