#include "tokenizer/hf_config.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "tokenizer/hf_vocabulary.h"

namespace octavo::tokenizer {
namespace {

// A token of tokenizer_config.json is its text, or an object like those of added_tokens.
Result<TokenId> read_named_token(const Json& config, const char* key, const Vocabulary& vocabulary,
                                 const std::string& source) {
  const Json* value = json_find(config, key);
  if (value == nullptr) return kNoToken;
  const std::string text = value->is_object() ? OCTAVO_TRY(json_string(*value, "content", source))
                                              : OCTAVO_TRY(json_string(config, key, source));
  const TokenId id = find_piece(vocabulary, text);
  if (id == kNoToken && !text.empty()) {
    log_warning("{}: '{}' is '{}', which is not in the vocabulary: ignored", source, key, text);
  }
  return id;
}

// Where tokenizer_config.json asks for BOS or EOS itself, that goes before the post-processor.
Status apply_add_flag(const Json& config, const char* key, TokenId id, bool at_front,
                      std::vector<TokenId>& around, const std::string& source) {
  if (json_find(config, key) == nullptr) return {};
  const bool add = OCTAVO_TRY(json_bool(config, key, source));
  const auto place = std::find(around.begin(), around.end(), id);
  if (add && id != kNoToken && place == around.end()) {
    around.insert(at_front ? around.begin() : around.end(), id);
  }
  if (!add && place != around.end()) around.erase(place);
  return {};
}

Status read_config(const Json& config, Vocabulary& vocabulary, const std::string& source) {
  const std::pair<const char*, TokenId*> tokens[] = {{"bos_token", &vocabulary.bos},
                                                     {"eos_token", &vocabulary.eos},
                                                     {"unk_token", &vocabulary.unknown},
                                                     {"pad_token", &vocabulary.padding}};
  for (const auto& [key, id] : tokens) {
    const TokenId named = OCTAVO_TRY(read_named_token(config, key, vocabulary, source));
    if (named != kNoToken) *id = named;
  }
  // Hugging Face makes added tokens of them that the text model cannot produce.
  for (const TokenId id : {vocabulary.bos, vocabulary.eos}) {
    if (id != kNoToken) vocabulary.kinds[static_cast<size_t>(id)] = TokenKind::kControl;
  }
  OCTAVO_TRY(
      apply_add_flag(config, "add_bos_token", vocabulary.bos, true, vocabulary.prefix, source));
  return apply_add_flag(config, "add_eos_token", vocabulary.eos, false, vocabulary.suffix, source);
}

void read_stop_ids(std::span<const int64_t> eos_ids, Vocabulary& vocabulary) {
  std::vector<TokenId>& stops = vocabulary.stop_ids;
  if (vocabulary.eos != kNoToken) stops.push_back(vocabulary.eos);
  for (const int64_t id : eos_ids) {
    if (id >= 0 && id < static_cast<int64_t>(vocabulary.size())) {
      stops.push_back(static_cast<TokenId>(id));
    } else {
      log_warning("the end token {} is not in the vocabulary: ignored", id);
    }
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  if (vocabulary.eos == kNoToken && !stops.empty()) vocabulary.eos = stops.front();
}

}  // namespace

Status apply_hf_config(const HfConfig& config, Vocabulary& vocabulary) {
  if (config.tokenizer_config != nullptr) {
    OCTAVO_TRY(read_config(*config.tokenizer_config, vocabulary, config.tokenizer_config_path));
  }
  read_stop_ids(config.eos_ids, vocabulary);
  return {};
}

Result<ChatTemplate> read_chat_template(const HfConfig& config) {
  if (!config.chat_template.empty()) {
    return parse_chat_template(config.chat_template, config.chat_template_path);
  }
  const std::string& source = config.tokenizer_config_path;
  const Json* found = config.tokenizer_config == nullptr
                          ? nullptr
                          : json_find(*config.tokenizer_config, "chat_template");
  if (found == nullptr) return unsupported(source + ": the model has no chat template");
  if (found->is_array()) {
    for (const Json& row : found->get_array()) {
      const std::string where = source + ": 'chat_template'";
      if (OCTAVO_TRY(json_string(row, "name", where)) != "default") continue;
      return parse_chat_template(OCTAVO_TRY(json_string(row, "template", where)), source);
    }
    return unsupported(source + ": 'chat_template' has none of the name 'default'");
  }
  return parse_chat_template(
      OCTAVO_TRY(json_string(*config.tokenizer_config, "chat_template", source)), source);
}

}  // namespace octavo::tokenizer
