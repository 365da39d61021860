#include "tokenizer/jinja/source.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

namespace octavo::tokenizer::jinja {

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return utf8_is_valid(out) ? out : utf8_replace_invalid(out);
}

std::string locate_message(std::string_view source, size_t offset, std::string_view message) {
  const std::string_view before = source.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return format("chat template:{}:{}: {}", line, char_count(before.substr(start)) + 1, message);
}

}  // namespace octavo::tokenizer::jinja
