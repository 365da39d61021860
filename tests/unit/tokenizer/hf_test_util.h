// A small tokenizer.json, and how the tests load one.
#pragma once

#include "test_data.h"
#include "tokenizer/hf_tokenizer.h"

namespace octavo::tokenizer {

using Ids = std::vector<TokenId>;

inline constexpr const char* kSource = "m/tokenizer.json";

inline Result<std::unique_ptr<Tokenizer>> load(const Json& json, const Json* config = nullptr,
                                               std::span<const int64_t> eos_ids = {}) {
  return load_hf_tokenizer(json,
                           {.tokenizer_config = config,
                            .tokenizer_config_path = "m/tokenizer_config.json",
                            .eos_ids = eos_ids},
                           kSource);
}

inline std::unique_ptr<Tokenizer> expect_loads(const Json& json, const Json* config = nullptr,
                                               std::span<const int64_t> eos_ids = {}) {
  auto tokenizer = load(json, config, eos_ids);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

inline constexpr TokenId kBos = 6, kEnd = 7;

// a b Ġ ab Ġa [hole] <s> <|end|> <think>
inline Json small_file() {
  return parse_json(R"({
    "added_tokens": [
      {"id": 6, "content": "<s>", "special": true, "normalized": false},
      {"id": 7, "content": "<|end|>", "special": true, "rstrip": true, "normalized": false},
      {"id": 8, "content": "<think>", "special": false, "normalized": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4},
      "merges": ["a b", ["Ġ", "a"]]}
  })",
                    "test")
      .value();
}

// What lies at a path of keys and indices.
inline Json* find_path(Json& json, std::span<const char* const> path) {
  Json* at = &json;
  for (const char* step : path) {
    at = at->is_array() ? &at->get_array()[static_cast<size_t>(std::atoi(step))]
                        : &at->as_object()[step];
  }
  return at;
}

}  // namespace octavo::tokenizer
