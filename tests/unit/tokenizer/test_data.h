// What the tokenizer's tests read from tests/data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "formats/checkpoint.h"
#include "octavo/tokenizer.h"
#include "tokenizer/load.h"

namespace octavo::tokenizer {

inline std::string read_test_data(const std::string& path) {
  std::ifstream file(OCTAVO_TEST_DATA "/" + path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json read_test_json(const std::string& path) {
  return parse_json(read_test_data(path), path).value();
}

inline JsonArray read_test_array(const std::string& path) {
  const Json json = read_test_json(path);
  return json.as_array();
}

inline std::vector<std::string> read_golden_texts() {
  std::vector<std::string> texts;
  for (const Json& text : read_test_array("tokenizer/texts.json")) {
    texts.emplace_back(to_view(text.as_string()));
  }
  EXPECT_GE(texts.size(), 3000u);
  return texts;
}

template <typename T>
std::vector<T> to_integers(const Json& array) {
  std::vector<T> values;
  for (const Json& value : array.as_array()) values.push_back(value.to_number<T>());
  return values;
}

inline Json read_vocabulary_metadata(const std::string& path) {
  auto checkpoint = formats::open_checkpoint(OCTAVO_TEST_DATA "/" + path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return (*checkpoint)->metadata();
}

inline std::unique_ptr<Tokenizer> load_or_fail(const Json& metadata) {
  auto tokenizer = load_gguf_tokenizer(metadata, "test.gguf");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

inline const Tokenizer& gpt2_tokenizer() {
  static const auto tokenizer =
      load_or_fail(read_vocabulary_metadata("vocabs/ggml-vocab-gpt-2.gguf"));
  return *tokenizer;
}

inline const Tokenizer& smollm2_tokenizer() {
  static const auto tokenizer = load_or_fail(read_vocabulary_metadata("smollm2/vocab.gguf"));
  return *tokenizer;
}

inline constexpr EncodeOptions kPlainText{.add_special = false, .parse_special = false};
inline constexpr EncodeOptions kWithSpecial{.add_special = false, .parse_special = true};

inline std::vector<TokenId> encode_or_fail(const Tokenizer& tokenizer, std::string_view text,
                                           const EncodeOptions& options) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return std::move(ids).value();
}

// Gives one of `values` to a random field of `metadata` or, of a list, to a random element.
inline void damage_field(Rng& rng, JsonObject& metadata, std::span<const Json> values) {
  auto field = metadata.begin() + static_cast<ptrdiff_t>(rng.next_u64() % metadata.size());
  const Json& value = values[rng.next_u64() % values.size()];
  JsonArray* elements = field->value().if_array();
  if (elements != nullptr && !elements->empty() && rng.next_u64() % 4 != 0) {
    (*elements)[rng.next_u64() % elements->size()] = value;
  } else {
    field->value() = value;
  }
}

// Whether work(text) on a text of 1 MB of repeated `unit` takes at most 80 times what 64 KB take:
// it is 16 times for linear work, 256 times for quadratic.
template <typename Work>
void expect_linear(const std::string& unit, Work work) {
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += unit;
  const auto time_of = [&](const std::string& input) {
    // The processor's time: what else the machine does is not counted.
    const std::clock_t start = std::clock();
    work(input);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const std::string small = text.substr(0, text.size() / 16);
  double small_s = 1e9;
  for (int run = 0; run < 3; ++run) small_s = std::min(small_s, time_of(small));
  const double large_s = time_of(text);
  EXPECT_LT(large_s, 80 * small_s + 0.01) << "1 MB of '" << unit << "'";
}

}  // namespace octavo::tokenizer
