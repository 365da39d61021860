#include "tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "tokenizer/hf_decoder.h"
#include "tokenizer/hf_model.h"
#include "tokenizer/hf_post_processor.h"
#include "tokenizer/hf_text_model.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/model_tokenizer.h"

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
  const auto read = [&](const char* key) {
    return read_named_token(config, key, vocabulary, source);
  };
  vocabulary.bos = OCTAVO_TRY(read("bos_token"));
  vocabulary.eos = OCTAVO_TRY(read("eos_token"));
  vocabulary.unknown = OCTAVO_TRY(read("unk_token"));
  vocabulary.padding = OCTAVO_TRY(read("pad_token"));
  // Hugging Face makes added tokens of them that the text model cannot produce.
  for (const TokenId id : {vocabulary.bos, vocabulary.eos}) {
    if (id != kNoToken) vocabulary.kinds[static_cast<size_t>(id)] = TokenKind::kControl;
  }
  OCTAVO_TRY(
      apply_add_flag(config, "add_bos_token", vocabulary.bos, true, vocabulary.prefix, source));
  return apply_add_flag(config, "add_eos_token", vocabulary.eos, false, vocabulary.suffix, source);
}

void read_stop_ids(std::span<const int64_t> eos_ids, Vocabulary& vocabulary,
                   const std::string& source) {
  std::vector<TokenId>& stops = vocabulary.stop_ids;
  if (vocabulary.eos != kNoToken) stops.push_back(vocabulary.eos);
  for (const int64_t id : eos_ids) {
    if (id >= 0 && id < static_cast<int64_t>(vocabulary.size())) {
      stops.push_back(static_cast<TokenId>(id));
    } else {
      log_warning("{}: the end token {} is not in the vocabulary: ignored", source, id);
    }
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  if (vocabulary.eos == kNoToken && !stops.empty()) vocabulary.eos = stops.front();
}

// "chat_template" is a template, or a list of several with names.
Result<ChatTemplate> read_chat_template(const HfTokenizerFiles& files, const std::string& source) {
  if (!files.chat_template.empty()) return parse_chat_template(files.chat_template, source);
  const Json* found = files.tokenizer_config == nullptr
                          ? nullptr
                          : json_find(*files.tokenizer_config, "chat_template");
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
      OCTAVO_TRY(json_string(*files.tokenizer_config, "chat_template", source)), source);
}

Result<SpecialTokens> normalized_tokens(const Vocabulary& vocabulary,
                                        const Normalizer& normalizer) {
  std::vector<SpecialTokens::Entry> entries;
  for (const auto& [id, rules] : vocabulary.match_rules) {
    if (!rules.normalized || vocabulary.is_control(id)) continue;
    std::string text(vocabulary.pieces[static_cast<size_t>(id)]);
    OCTAVO_TRY(normalizer.apply(text));
    entries.push_back({std::move(text), id});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return SpecialTokens(vocabulary, std::move(entries));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_hf_tokenizer(const HfTokenizerFiles& files,
                                                     const std::string& source) {
  const Json& json = files.tokenizer;
  if (!json.is_object()) return data_loss(source + ": must be an object");
  const auto where = [&](const char* key) { return format("{}: '{}'", source, key); };
  auto vocabulary = std::make_unique<Vocabulary>(OCTAVO_TRY(read_hf_vocabulary(json, source)));
  OCTAVO_TRY(
      read_post_processor(json_find(json, "post_processor"), *vocabulary, where("post_processor")));
  const std::string config_source =
      source.substr(0, source.rfind('/') + 1) + "tokenizer_config.json";
  if (files.tokenizer_config != nullptr) {
    OCTAVO_TRY(read_config(*files.tokenizer_config, *vocabulary, config_source));
  }
  read_stop_ids(files.eos_ids, *vocabulary, source);
  const HfDecoder decoder =
      OCTAVO_TRY(HfDecoder::from_json(json_find(json, "decoder"), where("decoder")));
  Normalizer normalizer =
      OCTAVO_TRY(Normalizer::from_json(json_find(json, "normalizer"), where("normalizer")));
  HfPreTokenizer pre_tokenizer = OCTAVO_TRY(
      HfPreTokenizer::from_json(json_find(json, "pre_tokenizer"), where("pre_tokenizer")));
  const bool byte_level = pre_tokenizer.is_byte_level();
  if (byte_level) {
    fill_byte_level_bytes(*vocabulary);
  } else {
    fill_spelled_bytes(*vocabulary, decoder);
  }
  HfModel model = OCTAVO_TRY(
      read_hf_model(json.get_object().at("model"), *vocabulary, byte_level, where("model")));
  SpecialTokens in_normalized = OCTAVO_TRY(normalized_tokens(*vocabulary, normalizer));
  auto text_model = std::make_unique<HfTextModel>(std::move(normalizer), std::move(in_normalized),
                                                  std::move(pre_tokenizer), std::move(model));
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(files, config_source)));
}

}  // namespace octavo::tokenizer
