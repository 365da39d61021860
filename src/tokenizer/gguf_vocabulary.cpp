#include "tokenizer/gguf_vocabulary.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

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

Status read_kinds(const GgufSource& source, Vocabulary& vocabulary) {
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

Status read_pieces(const GgufSource& source, Vocabulary& vocabulary) {
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

}  // namespace

Result<bool> read_gguf_flag(const GgufSource& source, const char* key, bool otherwise) {
  if (json_find(source.metadata, key) == nullptr) return otherwise;
  return json_bool(source.metadata, key, source.name);
}

Result<TokenId> read_gguf_token_id(const GgufSource& source, const char* key,
                                   const Vocabulary& vocabulary) {
  if (json_find(source.metadata, key) == nullptr) return kNoToken;
  const int64_t id = OCTAVO_TRY(json_int(source.metadata, key, source.name));
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.size())) {
    log_warning("{}: '{}' is {}, but the vocabulary has {} tokens: ignored", source.name, key, id,
                vocabulary.size());
    return kNoToken;
  }
  return static_cast<TokenId>(id);
}

Result<Vocabulary> read_gguf_vocabulary(const GgufSource& source) {
  Vocabulary vocabulary;
  OCTAVO_TRY(read_pieces(source, vocabulary));
  OCTAVO_TRY(read_kinds(source, vocabulary));
  return vocabulary;
}

Status read_gguf_named_tokens(const GgufSource& source, bool add_bos, Vocabulary& vocabulary) {
  const auto read = [&](const char* key) { return read_gguf_token_id(source, key, vocabulary); };
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
    const bool add = OCTAVO_TRY(read_gguf_flag(source, key, otherwise));
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

void add_known_stops(const GgufSource& source, Vocabulary& vocabulary) {
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

}  // namespace octavo::tokenizer
