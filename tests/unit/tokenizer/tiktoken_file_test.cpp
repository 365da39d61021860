// Vocabularies in tiktoken's format: a large one made here, against the definition of the encoding,
// and what may be wrong with a file.
#include "tokenizer/tiktoken_file.h"

#include <map>

#include "base/rng.h"
#include "test_data.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

constexpr size_t kLlama3Ranks = 128000;

Result<std::unique_ptr<Tokenizer>> load_tiktoken(const std::string& file) {
  return load_tiktoken_tokenizer(file, {}, "m/tokenizer.model");
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      const bool padding = i + k > bytes.size();
      out += padding ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

// As many tokens as Llama 3 has: all bytes, then random pairs of tokens.
struct Ranks {
  std::vector<std::string> tokens;
  std::map<std::string, TokenId> by_bytes;

  Ranks() {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    Rng rng(4);
    while (tokens.size() < kLlama3Ranks) {
      const size_t range = tokens.size() < 400 ? tokens.size() : 400;
      const std::string text = tokens[rng.next_u64() % range] + tokens[rng.next_u64() % range];
      if (!by_bytes.contains(text)) add(text);
    }
  }
  void add(const std::string& bytes) {
    by_bytes[bytes] = static_cast<TokenId>(tokens.size());
    tokens.push_back(bytes);
  }
  std::string file() const {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      text += base64(tokens[i]) + " " + std::to_string(i) + "\n";
    }
    return text;
  }
  // Merge the pair whose joint token has the lowest rank, the leftmost of equals, until none has.
  Ids encode(const std::string& piece) const {
    std::vector<std::string> parts;
    for (const char c : piece) parts.emplace_back(1, c);
    while (true) {
      size_t at = 0;
      TokenId best = kNoToken;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = by_bytes.find(parts[i] + parts[i + 1]);
        if (found == by_bytes.end() || (best != kNoToken && found->second >= best)) continue;
        best = found->second;
        at = i;
      }
      if (best == kNoToken) break;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    Ids ids;
    for (const std::string& part : parts) ids.push_back(by_bytes.at(part));
    return ids;
  }
};

TEST(TiktokenFile, MergesByTheRankOfTheResult) {
  const Ranks ranks;
  const auto tokenizer = load_tiktoken(ranks.file());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 128256);
  Rng rng(5);
  size_t merged = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string piece;  // of letters, so that the pattern does not cut it
    for (uint64_t n = 1 + rng.next_u64() % 10; n > 0; --n) {
      piece += static_cast<char>('a' + rng.next_u64() % 26);
    }
    const auto whole = ranks.by_bytes.find(piece);
    const Ids expected = whole == ranks.by_bytes.end() ? ranks.encode(piece) : Ids{whole->second};
    ASSERT_EQ(encode_or_fail(**tokenizer, piece, kPlainText), expected) << piece;
    if (expected.size() < piece.size()) ++merged;
  }
  EXPECT_GT(merged, 500u);
}

TEST(TiktokenFile, KnowsTheControlTokens) {
  const auto loaded = load_tiktoken(Ranks().file());
  ASSERT_TRUE(loaded.ok());
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.token_piece(128000), "<|begin_of_text|>");
  EXPECT_EQ(tokenizer.token_piece(128006), "<|start_header_id|>");
  EXPECT_EQ(tokenizer.token_piece(128009), "<|eot_id|>");
  EXPECT_EQ(tokenizer.token_piece(128012), "<|reserved_special_token_2|>");
  EXPECT_EQ(tokenizer.token_piece(128255), "<|reserved_special_token_245|>");
  EXPECT_EQ(Ids(tokenizer.stop_ids().begin(), tokenizer.stop_ids().end()),
            (Ids{128001, 128008, 128009}));
  EXPECT_EQ(encode_or_fail(tokenizer, "<|eot_id|>", kWithSpecial), Ids{128009});
  EXPECT_GT(encode_or_fail(tokenizer, "<|eot_id|>", kPlainText).size(), 1u);
  EXPECT_EQ(tokenizer.encode("a", {}).value(), (Ids{128000, 'a'}));
}

TEST(TiktokenFile, SaysWhatIsWrong) {
  const std::string long_token = base64(std::string(1025, 'a'));
  const std::pair<std::string, const char*> rows[] = {
      {"", "vocabulary of 0 tokens"},
      {"IQ== 0\n", "vocabulary of 1 tokens"},
      {"IQ== 0\nIg== 1", "vocabulary of 2 tokens"},
      {"IQ==\n", "token 0: no rank"},
      {"IQ== x\n", "token 0: no rank"},
      {"IQ== 0 1\n", "token 0: no rank"},
      {"IQ== -1\n", "token 0: no rank"},
      {"IQ== 99999999999999999999999\n", "token 0: no rank"},
      {"IQ== 1\n", "token 0: the rank is 1"},
      {"IQ== 0\nIg== 0\n", "token 1: the rank is 0"},
      {" 0\n", "token 0: no bytes in Base64"},
      {"I 0\n", "token 0: no bytes in Base64"},
      {"<html> 0\n", "token 0: no bytes in Base64"},
      {long_token + " 0\n", "token 0: 1025 bytes"},
  };
  for (const auto& [file, says] : rows) {
    const auto tokenizer = load_tiktoken(file);
    ASSERT_FALSE(tokenizer.ok()) << says;
    const std::string& message = tokenizer.status().message();
    EXPECT_TRUE(message.starts_with("m/tokenizer.model: ")) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message << " lacks " << says;
  }
}

}  // namespace
}  // namespace octavo::tokenizer
