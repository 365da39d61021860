#include "tokenizer/normalizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/base64.h"
#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer {
namespace {

// What a normalizer may make of a text of `size` bytes: a pattern that matches everywhere must not
// be able to take all memory.
size_t max_bytes(size_t size) {
  return 64 * size + (size_t{1} << 20);
}

// Calls visit(code_point, bytes) for each character; bytes that are not UTF-8 go to `out` as they
// are.
template <typename Visit>
void rewrite(std::string& text, Visit visit) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    const std::string_view bytes = std::string_view(text).substr(pos, c.size_bytes);
    if (c.valid) {
      visit(c.code_point, bytes, out);
    } else {
      out += bytes;
    }
    pos += c.size_bytes;
  }
  text = std::move(out);
}

bool is_mark(char32_t c) {
  const Category found = category(c);
  return found == Category::kMn || found == Category::kMc || found == Category::kMe;
}

// The ideographs of Chinese, as BERT has them. Hugging Face starts the last but two of the blocks
// at U+2B920, where the standard has U+2B820; ids follow Hugging Face.
bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
  };
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [c](const auto& block) { return c >= block.first && c <= block.second; });
}

// What BERT leaves out of a text: controls that are no white space, formats, private use, and the
// replacement character.
bool is_unclean(char32_t c) {
  const Category found = category(c);
  const bool is_blank = c == U'\t' || c == U'\n' || c == U'\r';
  return c == kReplacementCharacter || found == Category::kCf || found == Category::kCo ||
         (found == Category::kCc && !is_blank);
}

// The bytes that "precompiled_charsmap" spells.
Result<CharsMap> read_charsmap(const Json& json, const std::string& source) {
  constexpr const char* kKey = "precompiled_charsmap";
  const auto bytes = base64_decode(OCTAVO_TRY(json_string(json, kKey, source)));
  const std::string where = format("{}: '{}'", source, kKey);
  if (!bytes) return data_loss(where + " is not Base64");
  return CharsMap::parse(*bytes, where);
}

}  // namespace

Result<Normalizer> Normalizer::from_json(const Json* json, const std::string& source) {
  Normalizer normalizer;
  if (json != nullptr) OCTAVO_TRY(normalizer.add(*json, source));
  return normalizer;
}

Status Normalizer::add(const Json& json, const std::string& source) {
  const std::string type = OCTAVO_TRY(json_string(json, "type", source));
  if (type == "Sequence") {
    const JsonArray& steps = *OCTAVO_TRY(json_array(json, "normalizers", source));
    for (const Json& step : steps) OCTAVO_TRY(add(step, source));
  } else if (type == "NFC") {
    steps_.emplace_back(NormalForm::kNfc);
  } else if (type == "NFD") {
    steps_.emplace_back(NormalForm::kNfd);
  } else if (type == "NFKC") {
    steps_.emplace_back(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    steps_.emplace_back(NormalForm::kNfkd);
  } else if (type == "BertNormalizer") {
    return add_bert(json, source);
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps_.emplace_back(StripAccents{});
  } else if (type == "Strip") {
    const bool left = OCTAVO_TRY(json_bool(json, "strip_left", source));
    const bool right = OCTAVO_TRY(json_bool(json, "strip_right", source));
    steps_.emplace_back(Strip{left, right});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{OCTAVO_TRY(json_string(json, "prepend", source))});
  } else if (type == "Replace") {
    std::string by = OCTAVO_TRY(json_string(json, "content", source));
    steps_.emplace_back(Replace{OCTAVO_TRY(HfPattern::from_json(json, source)), std::move(by)});
  } else if (type == "Precompiled") {
    steps_.emplace_back(OCTAVO_TRY(read_charsmap(json, source)));
  } else {
    return unsupported(format("{}: '{}' is not supported", source, type));
  }
  return {};
}

Status Normalizer::add_bert(const Json& json, const std::string& source) {
  const bool lowercase = OCTAVO_TRY(json_bool(json, "lowercase", source));
  if (OCTAVO_TRY(json_bool(json, "clean_text", source))) steps_.emplace_back(CleanText{});
  if (OCTAVO_TRY(json_bool(json, "handle_chinese_chars", source))) {
    steps_.emplace_back(SpaceChinese{});
  }
  bool strip_accents = lowercase;
  if (json_find(json, "strip_accents") != nullptr) {
    strip_accents = OCTAVO_TRY(json_bool(json, "strip_accents", source));
  }
  if (strip_accents) {
    steps_.emplace_back(NormalForm::kNfd);
    steps_.emplace_back(StripNonspacingMarks{});
  }
  if (lowercase) steps_.emplace_back(Lowercase{});
  return {};
}

Status Normalizer::apply(std::string& text) const {
  const size_t most = max_bytes(text.size());
  for (const Step& step : steps_) {
    OCTAVO_TRY(std::visit([&](const auto& what) { return apply_step(what, text); }, step));
    if (text.size() > most) {
      return resource_exhausted(
          format("the tokenizer's normalizer makes {} bytes of a text", text.size()));
    }
  }
  return {};
}

Status Normalizer::apply_step(NormalForm form, std::string& text) {
  std::string storage;
  const std::string_view normalised = to_normal_form(form, text, storage);
  if (normalised.data() != text.data()) text = std::move(storage);
  return {};
}

Status Normalizer::apply_step(CleanText, std::string& text) {
  rewrite(text, [](char32_t c, std::string_view bytes, std::string& out) {
    if (is_unclean(c)) return;
    out += char_at(bytes, 0).is(kSpace) ? " " : bytes;
  });
  return {};
}

Status Normalizer::apply_step(SpaceChinese, std::string& text) {
  rewrite(text, [](char32_t c, std::string_view bytes, std::string& out) {
    const std::string_view space = is_chinese(c) ? " " : "";
    out.append(space).append(bytes).append(space);
  });
  return {};
}

Status Normalizer::apply_step(StripNonspacingMarks, std::string& text) {
  rewrite(text, [](char32_t c, std::string_view bytes, std::string& out) {
    if (category(c) != Category::kMn) out += bytes;
  });
  return {};
}

Status Normalizer::apply_step(Lowercase, std::string& text) {
  rewrite(text,
          [](char32_t c, std::string_view, std::string& out) { append_lower(out, c, false); });
  return {};
}

Status Normalizer::apply_step(StripAccents, std::string& text) {
  rewrite(text, [](char32_t c, std::string_view bytes, std::string& out) {
    if (!is_mark(c)) out += bytes;
  });
  return {};
}

Status Normalizer::apply_step(Strip strip, std::string& text) {
  size_t begin = 0;
  size_t end = 0;  // past the last character that is no space
  bool started = !strip.left;
  for (size_t pos = 0; pos < text.size();) {
    const TextChar c = char_at(text, pos);
    if (!c.is(kSpace)) {
      if (!started) begin = pos;
      started = true;
      end = pos + c.size_bytes;
    }
    pos += c.size_bytes;
  }
  if (!started) begin = text.size();
  if (!strip.right) end = text.size();
  text = begin < end ? text.substr(begin, end - begin) : std::string();
  return {};
}

Status Normalizer::apply_step(const Prepend& prepend, std::string& text) {
  if (!text.empty()) text.insert(0, prepend.text);
  return {};
}

Status Normalizer::apply_step(const Replace& replace, std::string& text) {
  std::vector<TextSpan> matches;
  OCTAVO_TRY(replace.pattern.find_all(text, matches));
  const size_t most = max_bytes(text.size());
  if (matches.size() * replace.by.size() > most) {
    return resource_exhausted(format("the tokenizer's normalizer makes {} bytes of a text",
                                     matches.size() * replace.by.size()));
  }
  std::string out;
  size_t done = 0;
  for (const TextSpan& match : matches) {
    out.append(text, done, match.begin - done).append(replace.by);
    done = match.end;
  }
  text = out.append(text, done);
  return {};
}

// Of a grapheme, all is replaced by what its shortest entry gives, where it has less than six
// bytes; what is left is looked up character by character. Hugging Face has it so.
Status Normalizer::apply_step(const CharsMap& map, std::string& text) {
  constexpr size_t kLongestGrapheme = 5;
  const std::string_view all = text;
  const auto find = [&](std::string_view part) {
    return map.find(part, CharsMap::Prefer::kShortest);
  };
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < all.size();) {
    const std::string_view grapheme = all.substr(pos, grapheme_end(all, pos) - pos);
    pos += grapheme.size();
    const auto whole = grapheme.size() <= kLongestGrapheme ? find(grapheme) : std::nullopt;
    if (whole) {
      out += whole->target;
      continue;
    }
    for (size_t i = 0; i < grapheme.size();) {
      const std::string_view character = grapheme.substr(i, utf8_decode(grapheme, i).size_bytes);
      const auto match = find(character);
      out += match ? match->target : character;
      i += character.size();
    }
  }
  text = std::move(out);
  return {};
}

}  // namespace octavo::tokenizer
