// 20,000 random texts against Hugging Face's `tokenizers`, whose ids are here as hashes. Where one
// differs, tools/compare_tokenizers.py --golden shows the text.
#include "base/rng.h"
#include "base/utf8.h"
#include "hf_test_util.h"

namespace octavo::tokenizer {
namespace {

// Draws as tools/tokenizer_texts.py does.
std::string random_text(uint64_t i, const Json& golden) {
  Rng rng(i);
  const auto draw = [&](const Json& array) -> const Json& {
    return array.as_array()[rng.next_u64() % array.as_array().size()];
  };
  const Json& parts = golden.at("parts");
  std::string text;
  for (uint64_t n = rng.next_u64() % 20; n > 0; --n) {
    const uint64_t kind = rng.next_u64() % (parts.as_array().size() + 2);
    if (kind < parts.as_array().size()) {
      text += to_view(draw(parts.as_array()[kind]).as_string());
      continue;
    }
    const Json& range = draw(golden.at("ranges"));
    const auto low = range.at(0).to_number<uint64_t>();
    const auto count = range.at(1).to_number<uint64_t>() - low + 1;
    for (uint64_t run = 1 + rng.next_u64() % 6; run > 0; --run) {
      utf8_append(text, static_cast<char32_t>(low + rng.next_u64() % count));
    }
  }
  return text;
}

// FNV-1a over the bytes of the ids, each text's followed by an end mark.
void add_to_hash(std::vector<TokenId> ids, uint32_t& hash) {
  ids.push_back(-1);
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xFF)) * 0x01000193u;
    }
  }
}

// The tokenizer.json of a golden case, by its name.
Json find_case(const std::string& name) {
  const Json models = read_test_json("tokenizer_json/spelled_models.json");
  const Json shared = read_test_json("tokenizer_json/vocab.json");
  for (const char* file : {"cases.json", "spelled_cases.json"}) {
    for (const Json& test : read_test_array(std::string("tokenizer_json/") + file)) {
      if (to_view(test.at("name").as_string()) != name) continue;
      const Json* model = json_find(test, "model");
      const Json& vocabulary = model == nullptr ? shared : models.at(to_view(model->as_string()));
      Json json = test.at("tokenizer");
      for (const auto& entry : vocabulary.as_object()) {
        json.at("model").as_object()[entry.key()] = entry.value();
      }
      return json;
    }
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

TEST(Differential, IdsOfRandomTextsAreThoseOfHuggingFace) {
  const Json golden = read_test_json("tokenizer_json/hashes.json");
  const auto batch = golden.at("batch").to_number<uint64_t>();
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 20000; ++i) texts.push_back(random_text(i, golden));
  ASSERT_GE(golden.at("hashes").as_object().size(), 16u);
  for (const auto& entry : golden.at("hashes").as_object()) {
    const std::string kind(entry.key());
    const auto tokenizer = expect_loads(find_case(kind));
    const auto hashes = to_integers<uint32_t>(entry.value());
    ASSERT_EQ(hashes.size() * batch, texts.size());
    for (uint64_t i = 0; i < hashes.size(); ++i) {
      uint32_t hash = 0x811C9DC5u;
      for (uint64_t k = i * batch; k < (i + 1) * batch; ++k) {
        add_to_hash(encode_or_fail(*tokenizer, texts[k], kWithSpecial), hash);
      }
      ASSERT_EQ(hash, hashes[i]) << kind << ": texts " << i * batch << " to " << (i + 1) * batch;
    }
  }
}

}  // namespace
}  // namespace octavo::tokenizer
