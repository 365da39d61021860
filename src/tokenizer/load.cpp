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
#include "tokenizer/hf_text_model.h"
#include "tokenizer/merge_builder.h"
#include "tokenizer/model_tokenizer.h"
#include "tokenizer/spm_text_model.h"

namespace octavo::tokenizer {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;  // 60 times the largest in use

// Texts that end a turn in one model family or another. Files often name only one of a model's
// several; the others are told by their text, but only where the file says that it is a control
// token.
constexpr std::string_view kEndOfTurnTexts[] = {
    "<|eot_id|>",    "<|im_end|>",    "<|end|>",         "<|end_of_text|>",
    "<|endoftext|>", "<end_of_turn>", "<|eom_id|>",      "</s>",
    "<|EOT|>",       "<EOT>",         "<|end_of_turn|>", "<|endofturn|>",
    "<|eot|>",       "<|eom|>",       "<|return|>",      "<｜end▁of▁sentence｜>",
};

// What the keys are read with: the metadata and where it is from.
struct Source {
  const Json& metadata;
  const std::string& name;
};

// The id under `key`; kNoToken where the file has none, or one that the vocabulary lacks.
Result<TokenId> read_token_id(const Source& source, const char* key, const Vocabulary& vocabulary) {
  if (json_find(source.metadata, key) == nullptr) return kNoToken;
  const int64_t id = OCTAVO_TRY(json_int(source.metadata, key, source.name));
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.size())) {
    log_warning("{}: '{}' is {}, but the vocabulary has {} tokens: ignored", source.name, key, id,
                vocabulary.size());
    return kNoToken;
  }
  return static_cast<TokenId>(id);
}

Result<bool> read_flag(const Source& source, const char* key, bool otherwise) {
  if (json_find(source.metadata, key) == nullptr) return otherwise;
  return json_bool(source.metadata, key, source.name);
}

Status read_kinds(const Source& source, Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  vocabulary.kinds.assign(vocabulary.pieces.size(), TokenKind::kNormal);
  if (json_find(source.metadata, kKey) == nullptr) return {};
  const JsonArray& kinds = *OCTAVO_TRY(json_array(source.metadata, kKey, source.name));
  if (kinds.size() != vocabulary.pieces.size()) {
    return data_loss(format("{}: '{}' has {} elements for {} tokens", source.name, kKey,
                            kinds.size(), vocabulary.pieces.size()));
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    boost::system::error_code error;
    const auto kind = kinds[i].to_number<int64_t>(error);
    if (error || kinds[i].is_double() || kind < 0 ||
        kind > static_cast<int64_t>(TokenKind::kByte)) {
      return data_loss(format("{}: '{}'[{}] is no kind of token", source.name, kKey, i));
    }
    vocabulary.kinds[i] = static_cast<TokenKind>(kind);
  }
  return {};
}

Status read_pieces(const Source& source, Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.tokens";
  const JsonArray& tokens = *OCTAVO_TRY(json_array(source.metadata, kKey, source.name));
  if (tokens.empty() || tokens.size() > kMaxTokens) {
    return data_loss(format("{}: '{}' has {} elements, not 1 to {}", source.name, kKey,
                            tokens.size(), kMaxTokens));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is_string()) {
      return data_loss(format("{}: '{}'[{}] is not a string", source.name, kKey, i));
    }
    vocabulary.pieces.add(to_view(tokens[i].get_string()));
  }
  return {};
}

// The ids that the file names, and what follows from them.
Status read_named_tokens(const Source& source, bool add_bos, Vocabulary& vocabulary) {
  const auto read = [&](const char* key) { return read_token_id(source, key, vocabulary); };
  vocabulary.bos = OCTAVO_TRY(read("tokenizer.ggml.bos_token_id"));
  vocabulary.eos = OCTAVO_TRY(read("tokenizer.ggml.eos_token_id"));
  vocabulary.unknown = OCTAVO_TRY(read("tokenizer.ggml.unknown_token_id"));
  vocabulary.padding = OCTAVO_TRY(read("tokenizer.ggml.padding_token_id"));
  const TokenId ends[] = {vocabulary.eos, OCTAVO_TRY(read("tokenizer.ggml.eot_token_id")),
                          OCTAVO_TRY(read("tokenizer.ggml.eom_token_id"))};
  const auto named = [](TokenId id) { return id != kNoToken; };
  std::copy_if(std::begin(ends), std::end(ends), std::back_inserter(vocabulary.stop_ids), named);
  if (json_find(source.metadata, "tokenizer.ggml.token_type") == nullptr) {
    // A file that does not say which tokens are control tokens means at least these.
    for (const TokenId id : {vocabulary.bos, ends[0], ends[1], ends[2]}) {
      if (named(id)) vocabulary.kinds[static_cast<size_t>(id)] = TokenKind::kControl;
    }
  }
  const auto read_add = [&](const char* key, bool otherwise, TokenId id) -> Result<bool> {
    const bool add = OCTAVO_TRY(read_flag(source, key, otherwise));
    if (add && id == kNoToken) log_warning("{}: '{}' without such a token", source.name, key);
    return add && id != kNoToken;
  };
  if (OCTAVO_TRY(read_add("tokenizer.ggml.add_bos_token", add_bos, vocabulary.bos))) {
    vocabulary.prefix = {vocabulary.bos};
  }
  if (OCTAVO_TRY(read_add("tokenizer.ggml.add_eos_token", false, vocabulary.eos))) {
    vocabulary.suffix = {vocabulary.eos};
  }
  return {};
}

void add_known_stops(const Source& source, Vocabulary& vocabulary) {
  std::vector<TokenId>& stops = vocabulary.stop_ids;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.is_control(id) &&
        std::find(std::begin(kEndOfTurnTexts), std::end(kEndOfTurnTexts), vocabulary.pieces[i]) !=
            std::end(kEndOfTurnTexts)) {
      stops.push_back(id);
    }
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  for (const TokenId id : stops) {
    log_debug("{}: token {} '{}' ends an answer", source.name, id,
              vocabulary.pieces[static_cast<size_t>(id)]);
  }
}

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
Result<MergeTable> read_merges(const Source& source, const Vocabulary& vocabulary) {
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

Result<std::string> read_pre_tokenizer_name(const Source& source) {
  constexpr const char* kKey = "tokenizer.ggml.pre";
  if (json_find(source.metadata, kKey) != nullptr) {
    return json_string(source.metadata, kKey, source.name);
  }
  log_warning("{}: '{}' is missing: text may be cut otherwise than the model was trained with",
              source.name, kKey);
  return std::string("default");
}

Result<ChatTemplate> read_chat_template(const Source& source) {
  for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_template.default"}) {
    if (json_find(source.metadata, key) == nullptr) continue;
    return parse_chat_template(OCTAVO_TRY(json_string(source.metadata, key, source.name)),
                               source.name);
  }
  return unsupported(source.name + ": the model has no chat template");
}

Result<BpeModel> read_bpe(const Source& source, bool ignore_merges, Vocabulary& vocabulary) {
  fill_byte_level_bytes(vocabulary);
  MergeTable merges = OCTAVO_TRY(read_merges(source, vocabulary));
  BpeModel bpe(vocabulary, std::move(merges), {.ignore_merges = ignore_merges});
  log_debug("{}: {} tokens, {} of 256 bytes without one", source.name, vocabulary.size(),
            bpe.missing_bytes());
  return bpe;
}

Result<std::unique_ptr<TextModel>> load_byte_level(const Source& source, Vocabulary& vocabulary) {
  const std::string name = OCTAVO_TRY(read_pre_tokenizer_name(source));
  if (const PreTokenizer* known = find_pre_tokenizer(name)) {
    OCTAVO_TRY(read_named_tokens(source, known->add_bos, vocabulary));
    BpeModel bpe = OCTAVO_TRY(read_bpe(source, known->ignore_merges, vocabulary));
    return std::unique_ptr<TextModel>(std::make_unique<ByteLevelBpe>(*known, std::move(bpe)));
  }
  const RegexPreTokenizer* regex = find_regex_pre_tokenizer(name);
  if (regex == nullptr) {
    return unsupported(format("{}: pre-tokenizer '{}' is not supported", source.name, name));
  }
  OCTAVO_TRY(read_named_tokens(source, regex->add_bos, vocabulary));
  BpeModel bpe = OCTAVO_TRY(read_bpe(source, regex->ignore_merges, vocabulary));
  const Json nfc = {{"type", "NFC"}};
  return std::unique_ptr<TextModel>(std::make_unique<HfTextModel>(
      OCTAVO_TRY(Normalizer::from_json(regex->nfc ? &nfc : nullptr, source.name)),
      SpecialTokens(vocabulary, {}),
      OCTAVO_TRY(HfPreTokenizer::byte_level(regex->patterns, source.name)), std::move(bpe)));
}

Result<std::vector<float>> read_scores(const Source& source, const Vocabulary& vocabulary) {
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
Result<std::optional<CharsMap>> read_charsmap(const Source& source) {
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

// `model`: "llama", byte-pair encoding by scores, or "t5", Unigram.
Result<std::unique_ptr<TextModel>> load_sentence_piece(const Source& source,
                                                       const std::string& model,
                                                       Vocabulary& vocabulary) {
  const bool unigram = model == "t5";
  OCTAVO_TRY(read_named_tokens(source, !unigram, vocabulary));
  vocabulary.space_prefix = OCTAVO_TRY(read_flag(source, "tokenizer.ggml.add_space_prefix", true));
  fill_spm_bytes(vocabulary);
  std::vector<float> scores = OCTAVO_TRY(read_scores(source, vocabulary));
  SpmNormalizer normalizer;
  using Prefix = SpmNormalizer::Prefix;
  normalizer.prefix = vocabulary.space_prefix ? Prefix::kAlways : Prefix::kNever;
  if (!unigram) {
    return std::unique_ptr<TextModel>(std::make_unique<SpmTextModel>(
        std::move(normalizer), SpmModel(vocabulary, std::move(scores), kNoToken)));
  }
  normalizer.map = OCTAVO_TRY(read_charsmap(source));
  normalizer.remove_extra_whitespaces =
      OCTAVO_TRY(read_flag(source, "tokenizer.ggml.remove_extra_whitespaces", false));
  return std::unique_ptr<TextModel>(
      std::make_unique<SpmTextModel>(std::move(normalizer), make_spm_unigram(vocabulary, scores)));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const Json& metadata,
                                                       const std::string& source_name) {
  const Source source{metadata, source_name};
  const std::string model = OCTAVO_TRY(json_string(metadata, "tokenizer.ggml.model", source_name));
  const bool byte_level = model == "gpt2";
  if (!byte_level && model != "llama" && model != "t5") {
    return unsupported(format("{}: tokenizer model '{}' is not supported", source_name, model));
  }
  auto vocabulary = std::make_unique<Vocabulary>();
  OCTAVO_TRY(read_pieces(source, *vocabulary));
  OCTAVO_TRY(read_kinds(source, *vocabulary));
  auto text_model = OCTAVO_TRY(byte_level ? load_byte_level(source, *vocabulary)
                                          : load_sentence_piece(source, model, *vocabulary));
  add_known_stops(source, *vocabulary);
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(source)));
}

}  // namespace octavo::tokenizer
