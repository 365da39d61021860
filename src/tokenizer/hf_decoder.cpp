#include "tokenizer/hf_decoder.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/hf_metaspace.h"
#include "tokenizer/word_piece.h"

namespace octavo::tokenizer {

Result<HfDecoder> HfDecoder::from_json(const Json* json, const std::string& source) {
  HfDecoder decoder;
  if (json != nullptr) OCTAVO_TRY(decoder.add(*json, source));
  const bool spells = decoder.byte_fallback_ || !decoder.replacements_.empty();
  const bool word_piece = decoder.word_piece_.has_value();
  if ((decoder.byte_level_ && (spells || word_piece)) || (word_piece && spells)) {
    return unsupported(format("{}: '{}' beside steps that change spellings", source,
                              decoder.byte_level_ ? "ByteLevel" : "WordPiece"));
  }
  return decoder;
}

Status HfDecoder::add(const Json& json, const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(json, "type", source));
  if (type == "Sequence") {
    for (const Json& step : *OCTAVO_TRY(json_array(json, "decoders", source))) {
      OCTAVO_TRY(add(step, source));
    }
    return {};
  }
  if (type == "Replace") return add_replace(json, source);
  if (type == "Strip") return add_strip(json, source);
  if (type == "Metaspace") return add_metaspace(json, source);
  if (type == "WordPiece") return add_word_piece(json, source);
  if (type == "ByteLevel") {
    byte_level_ = true;
  } else if (type == "ByteFallback") {
    byte_fallback_ = true;
  } else if (type != "Fuse") {
    return unsupported(format("{}: '{}' is not supported", source, type));
  }
  return {};
}

Status HfDecoder::add_replace(const Json& json, const std::string& source) {
  const Json* pattern = json_find(json, "pattern");
  if (pattern == nullptr) return data_loss(source + ": 'pattern' is missing");
  if (json_find(*pattern, "Regex") != nullptr) {
    return unsupported(source + ": 'Replace' with a 'Regex'");
  }
  std::string from = OCTAVO_TRY(json_string(*pattern, "String", source));
  if (from.empty()) return data_loss(source + ": 'String' is empty");
  replacements_.emplace_back(std::move(from), OCTAVO_TRY(json_string(json, "content", source)));
  return {};
}

Status HfDecoder::add_strip(const Json& json, const std::string& source) {
  const std::string content = OCTAVO_TRY(json_string(json, "content", source));
  const int64_t start = OCTAVO_TRY(json_int(json, "start", source));
  const int64_t stop = OCTAVO_TRY(json_int(json, "stop", source));
  if (start == 0 && stop == 0) return {};
  if (content != " " || start != 1 || stop != 0) {
    return unsupported(
        format("{}: 'Strip' of {} '{}' at the start and {} at the end; octavo strips one space at "
               "the start",
               source, start, content, stop));
  }
  strips_first_space_ = true;
  return {};
}

Status HfDecoder::add_metaspace(const Json& json, const std::string& source) {
  const HfMetaspace metaspace = OCTAVO_TRY(HfMetaspace::from_json(json, source));
  replacements_.emplace_back(metaspace.replacement, " ");
  strips_first_space_ = metaspace.prepend != HfMetaspace::Prepend::kNever;
  return {};
}

Status HfDecoder::add_word_piece(const Json& json, const std::string& source) {
  std::string prefix = OCTAVO_TRY(json_string(json, "prefix", source));
  const bool cleanup = OCTAVO_TRY(json_bool(json, "cleanup", source));
  word_piece_ = {.prefix = std::move(prefix), .cleanup = cleanup};
  strips_first_space_ = true;
  return {};
}

std::string HfDecoder::bytes_of(std::string_view piece) const {
  if (byte_level_) return bytes_of_spelling(piece).value_or(std::string(piece));
  if (word_piece_) {
    const bool goes_on = piece.starts_with(word_piece_->prefix);
    if (goes_on) piece.remove_prefix(word_piece_->prefix.size());
    return word_piece_text(piece, !goes_on, word_piece_->cleanup);
  }
  std::string text(piece);
  for (const auto& [from, to] : replacements_) {
    for (size_t pos = 0; (pos = text.find(from, pos)) != std::string::npos; pos += to.size()) {
      text.replace(pos, from.size(), to);
    }
  }
  if (!byte_fallback_) return text;
  const auto byte = byte_of_piece(text);
  return byte ? std::string(1, *byte) : text;
}

}  // namespace octavo::tokenizer
