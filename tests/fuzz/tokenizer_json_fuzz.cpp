// tokenizer.json as bytes, and after a NUL a text: loading ends in an error that names the file or
// in a tokenizer whose ids are all in its vocabulary.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "tokenizer/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t json_size = std::min(input.find('\0'), input.size());
  const auto json = octavo::parse_json(input.substr(0, json_size), "input");
  if (!json.ok()) return 0;
  const octavo::tokenizer::HfConfig config{.tokenizer_config = &*json,
                                           .tokenizer_config_path = "file"};
  const auto tokenizer = octavo::tokenizer::load_hf_tokenizer(*json, config, "file");
  if (!tokenizer.ok()) {
    if (!tokenizer.status().message().starts_with("file: ")) std::abort();
    return 0;
  }
  const std::string_view rest = input.substr(std::min(json_size + 1, size));
  for (const std::string_view text : {rest, std::string_view("a Ab  12\n<s>\xC3\xA9\xFF'll")}) {
    for (const bool parse_special : {false, true}) {
      const auto ids = (*tokenizer)->encode(text, {true, parse_special});
      if (ids.ok() && !(*tokenizer)->decode(*ids, true).ok()) std::abort();
    }
  }
  return 0;
}
