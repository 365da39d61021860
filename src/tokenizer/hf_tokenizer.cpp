#include "tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/hf_decoder.h"
#include "tokenizer/hf_model.h"
#include "tokenizer/hf_post_processor.h"
#include "tokenizer/hf_text_model.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/model_tokenizer.h"

namespace octavo::tokenizer {
namespace {

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

Result<std::unique_ptr<Tokenizer>> load_hf_tokenizer(const Json& json, const HfConfig& config,
                                                     const std::string& source) {
  if (!json.is_object()) return data_loss(source + ": must be an object");
  const auto where = [&](const char* key) { return format("{}: '{}'", source, key); };
  auto vocabulary = std::make_unique<Vocabulary>(OCTAVO_TRY(read_hf_vocabulary(json, source)));
  OCTAVO_TRY(
      read_post_processor(json_find(json, "post_processor"), *vocabulary, where("post_processor")));
  OCTAVO_TRY(apply_hf_config(config, *vocabulary));
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
      std::move(vocabulary), std::move(text_model), read_chat_template(config)));
}

}  // namespace octavo::tokenizer
