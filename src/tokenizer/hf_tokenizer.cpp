#include "tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "tokenizer/hf_post_processor.h"
#include "tokenizer/hf_text_model.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/merge_builder.h"
#include "tokenizer/model_tokenizer.h"

namespace octavo::tokenizer {
namespace {

// Bytes that no UTF-8 text has: 0xC0, 0xC1, 0xF5 to 0xFF.
constexpr int kBytesOutsideUtf8 = 13;

Result<bool> read_flag(const Json& json, const char* key, const std::string& source) {
  if (json_find(json, key) == nullptr) return false;
  return json_bool(json, key, source);
}

// Settings of the model that change ids, and that this model does not have.
Status check_model(const Json& model, const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(model, "type", source));
  if (type != "BPE") return unsupported(format("{}: 'type' is '{}', not 'BPE'", source, type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (json_find(model, key) == nullptr) continue;
    const std::string affix = OCTAVO_TRY(json_string(model, key, source));
    if (!affix.empty()) return unsupported(format("{}: '{}' is '{}'", source, key, affix));
  }
  if (json_find(model, "dropout") != nullptr) {
    const double dropout = OCTAVO_TRY(json_double(model, "dropout", source));
    if (dropout != 0) return unsupported(format("{}: 'dropout' is {}", source, dropout));
  }
  if (OCTAVO_TRY(read_flag(model, "byte_fallback", source))) {
    return unsupported(source + ": 'byte_fallback' is only supported in GGUF files");
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

Result<BpeModel> read_bpe(const Json& model, const Vocabulary& vocabulary,
                          const std::string& source) {
  OCTAVO_TRY(check_model(model, source));
  const bool ignore_merges = OCTAVO_TRY(read_flag(model, "ignore_merges", source));
  BpeModel bpe(vocabulary, OCTAVO_TRY(read_merges(model, vocabulary, source)), ignore_merges);
  const bool has_unknown = json_find(model, "unk_token") != nullptr;
  if (has_unknown && bpe.missing_bytes() > kBytesOutsideUtf8) {
    return unsupported(
        format("{}: 'unk_token' for {} bytes without a token", source, bpe.missing_bytes()));
  }
  return bpe;
}

// All that does anything to ids in a decoder other than ByteLevel's is refused.
Status check_decoder(const Json& decoder, const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(decoder, "type", source));
  if (type == "Sequence") {
    for (const Json& step : *OCTAVO_TRY(json_array(decoder, "decoders", source))) {
      OCTAVO_TRY(check_decoder(step, source));
    }
    return {};
  }
  if (type == "ByteLevel" || type == "Fuse") return {};
  return unsupported(format("{}: '{}' is not supported", source, type));
}

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
  const std::string config_source = source + ": tokenizer_config";
  if (files.tokenizer_config != nullptr) {
    OCTAVO_TRY(read_config(*files.tokenizer_config, *vocabulary, config_source));
  }
  read_stop_ids(files.eos_ids, *vocabulary, source);
  fill_hf_bytes(*vocabulary);

  Normalizer normalizer =
      OCTAVO_TRY(Normalizer::from_json(json_find(json, "normalizer"), where("normalizer")));
  HfPreTokenizer pre_tokenizer = OCTAVO_TRY(
      HfPreTokenizer::from_json(json_find(json, "pre_tokenizer"), where("pre_tokenizer")));
  if (const Json* decoder = json_find(json, "decoder")) {
    OCTAVO_TRY(check_decoder(*decoder, where("decoder")));
  }
  BpeModel bpe = OCTAVO_TRY(read_bpe(json.get_object().at("model"), *vocabulary, where("model")));
  SpecialTokens in_normalized = OCTAVO_TRY(normalized_tokens(*vocabulary, normalizer));
  auto text_model = std::make_unique<HfTextModel>(std::move(normalizer), std::move(in_normalized),
                                                  std::move(pre_tokenizer), std::move(bpe));
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(files, config_source)));
}

}  // namespace octavo::tokenizer
