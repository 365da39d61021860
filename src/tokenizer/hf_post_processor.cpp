#include "tokenizer/hf_post_processor.h"

#include "base/check.h"
#include "base/format.h"

namespace octavo::tokenizer {
namespace {

// The ids that "special_tokens" gives for a name of the template.
Status append_special(const Json& json, const std::string& name, const Vocabulary& vocabulary,
                      const std::string& source, std::vector<TokenId>& ids) {
  const Json* tokens = json_find(json, "special_tokens");
  const Json* token = tokens == nullptr ? nullptr : json_find(*tokens, name);
  if (token == nullptr) {
    return data_loss(format("{}: 'special_tokens' lacks '{}'", source, name));
  }
  for (const Json& value : *OCTAVO_TRY(json_array(*token, "ids", source))) {
    boost::system::error_code error;
    const auto id = value.to_number<int32_t>(error);
    if (error || value.is_double() || !vocabulary.contains(id)) {
      return data_loss(format("{}: 'ids' of '{}' are not all in the vocabulary", source, name));
    }
    ids.push_back(id);
  }
  return {};
}

Status read_template(const Json& json, Vocabulary& vocabulary, const std::string& source) {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  int texts = 0;
  for (const Json& part : *OCTAVO_TRY(json_array(json, "single", source))) {
    if (json_find(part, "Sequence") != nullptr) {
      ++texts;
      continue;
    }
    const Json* special = json_find(part, "SpecialToken");
    if (special == nullptr) {
      return data_loss(source + ": 'single' holds neither 'SpecialToken' nor 'Sequence'");
    }
    const std::string name = OCTAVO_TRY(json_string(*special, "id", source));
    OCTAVO_TRY(append_special(json, name, vocabulary, source, texts == 0 ? prefix : suffix));
  }
  if (texts != 1) return data_loss(format("{}: 'single' holds {} texts, not 1", source, texts));
  vocabulary.prefix.insert(vocabulary.prefix.begin(), prefix.begin(), prefix.end());
  vocabulary.suffix.insert(vocabulary.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// "cls" and "sep" are pairs of a token and its id; the one goes before a text, the other after it.
Status read_pair(const Json& json, Vocabulary& vocabulary, const std::string& source) {
  const auto read = [&](const char* key, std::vector<TokenId>& ids) -> Status {
    const JsonArray& pair = *OCTAVO_TRY(json_array(json, key, source));
    boost::system::error_code error;
    const auto id = pair.size() == 2 ? pair[1].to_number<int32_t>(error) : kNoToken;
    if (error || !vocabulary.contains(id)) {
      return data_loss(format("{}: '{}' is no token with its id", source, key));
    }
    ids.push_back(id);
    return {};
  };
  OCTAVO_TRY(read("cls", vocabulary.prefix));
  return read("sep", vocabulary.suffix);
}

}  // namespace

Status read_post_processor(const Json* json, Vocabulary& vocabulary, const std::string& source) {
  if (json == nullptr) return {};
  const std::string type = OCTAVO_TRY(json_string(*json, "type", source));
  if (type == "ByteLevel") return {};  // about offsets only
  if (type == "TemplateProcessing") return read_template(*json, vocabulary, source);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return read_pair(*json, vocabulary, source);
  }
  if (type != "Sequence") return unsupported(format("{}: '{}' is not supported", source, type));
  for (const Json& step : *OCTAVO_TRY(json_array(*json, "processors", source))) {
    OCTAVO_TRY(read_post_processor(&step, vocabulary, source));
  }
  return {};
}

}  // namespace octavo::tokenizer
