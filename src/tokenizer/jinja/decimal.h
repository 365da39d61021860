// Numbers as templates and texts spell them. The process's locale, whose decimal point may be a
// comma, has no say.
#pragma once

#include <locale.h>
#include <stdlib.h>

#include <string>

namespace octavo::tokenizer::jinja {

// The double nearest to `text`, a decimal number as Python writes it; infinite or zero where that
// is beyond a double.
inline double parse_decimal(const std::string& text) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(text.c_str(), nullptr, c_locale);
}

}  // namespace octavo::tokenizer::jinja
