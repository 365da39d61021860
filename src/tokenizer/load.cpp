#include "tokenizer/load.h"

namespace octavo::tokenizer {

Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const Json&, const std::string& source) {
  return unsupported(source + ": no tokenizer is known yet");
}

}  // namespace octavo::tokenizer
