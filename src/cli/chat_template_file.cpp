#include "cli/chat_template_file.h"

#include "base/check.h"
#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "octavo/tokenizer.h"

namespace octavo::cli {

Result<std::string> read_chat_template(const std::string& value, const std::string& where) {
  if (value.empty()) return value;
  const auto file = formats::read_text_file(value);
  if (!file.ok() && value.find_first_of("{}\n") == std::string::npos) {
    return not_found(format("{}: cannot read {}", where, value));
  }
  const std::string& text = file.ok() ? *file : value;
  OCTAVO_TRY(check_chat_template(text, file.ok() ? value : where));
  return text;
}

}  // namespace octavo::cli
