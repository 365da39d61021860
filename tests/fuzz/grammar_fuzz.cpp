// Schemas (after the byte j), grammars (g) and regular expressions (r) of any bytes: compiling
// neither crashes nor takes long, and of what compiles, an answer that is made of allowed tokens
// always has a next one. Before a zero byte stands the text, behind it what chooses the tokens.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "grammar/grammar_cache.h"
#include "support/piece_tokenizer.h"

namespace {

constexpr int kMaxTokens = 30;

void walk(octavo::grammar::Matcher matcher, std::string_view choices) {
  static const octavo::testing::PieceTokenizer tokenizer;
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()));
  for (int i = 0; i < kMaxTokens; ++i) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    if (!matcher.mask(logits).ok()) return;  // too ambiguous
    std::vector<octavo::TokenId> left;
    for (size_t id = 0; id < logits.size(); ++id) {
      if (!std::isinf(logits[id])) left.push_back(static_cast<octavo::TokenId>(id));
    }
    if (left.empty()) std::abort();
    const size_t choice =
        choices.empty() ? 1 : static_cast<unsigned char>(choices[i % choices.size()]);
    const octavo::TokenId id = left[choice % left.size()];
    if (id == tokenizer.eos_id()) return;
    matcher.accept(id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const octavo::testing::PieceTokenizer tokenizer;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), input.size());
  octavo::StructuredOutputs outputs;
  const std::string text(input.substr(1, zero == 0 ? 0 : zero - 1));
  if (input[0] == 'j') outputs.json = text;
  if (input[0] == 'g') outputs.grammar = text;
  if (input[0] == 'r') outputs.regex = text;
  octavo::grammar::GrammarCache cache(&tokenizer);
  auto matcher = cache.matcher(outputs);
  if (matcher.ok()) walk(*std::move(matcher), input.substr(zero));
  return 0;
}
