// Texts against grammars, as an engine would drive them: by masks over a vocabulary.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "grammar/grammar_cache.h"
#include "support/piece_tokenizer.h"

namespace octavo::grammar {

class GrammarWalk {
 public:
  explicit GrammarWalk(const StructuredOutputs& outputs) : matcher_(start(outputs)) {}

  static StructuredOutputs json(std::string schema) {
    StructuredOutputs outputs;
    outputs.json = std::move(schema);
    return outputs;
  }
  static StructuredOutputs regex(std::string text) {
    StructuredOutputs outputs;
    outputs.regex = std::move(text);
    return outputs;
  }
  static StructuredOutputs gbnf(std::string text) {
    StructuredOutputs outputs;
    outputs.grammar = std::move(text);
    return outputs;
  }

  static Status status_of(const StructuredOutputs& outputs) {
    return GrammarCache(&tokenizer()).matcher(outputs).status();
  }

  // Whether the text, byte by byte, is allowed and may end.
  bool accepts(std::string_view text) const {
    if (!matcher_.ok()) return false;
    Matcher matcher = *matcher_;
    for (const char c : text) {
      const TokenId id = testing::PieceTokenizer::kFirstByte + static_cast<unsigned char>(c);
      if (!allowed(matcher)[static_cast<size_t>(id)]) return false;
      matcher.accept(id);
    }
    return allowed(matcher)[0];
  }

  // A random answer; "" and a failure where it does not end. Tokens that close something come
  // sooner than by chance, so that answers end.
  std::string random_text(Rng& rng) const {
    EXPECT_TRUE(matcher_.ok()) << matcher_.status().message();
    if (!matcher_.ok()) return "";
    Matcher matcher = *matcher_;
    std::string text;
    for (int step = 0; step < 4000; ++step) {
      const std::vector<bool> may = allowed(matcher);
      const TokenId id = pick(may, rng, step);
      if (id < 0) break;
      if (id == 0) return text;
      if (step % 16 == 0) check_by_bytes(matcher, may, rng);
      text += tokenizer().token_bytes(id, false);
      matcher.accept(id);
    }
    ADD_FAILURE() << "no end after: " << text;
    return "";
  }

  static const testing::PieceTokenizer& tokenizer() {
    static const testing::PieceTokenizer own;
    return own;
  }

  static std::vector<bool> allowed(Matcher& matcher) {
    std::vector<float> logits(static_cast<size_t>(tokenizer().vocab_size()) + 5, 1.0f);
    const Status status = matcher.mask(logits);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<bool> may;
    for (const float logit : logits) may.push_back(!std::isinf(logit));
    return may;
  }

 private:
  static Result<Matcher> start(const StructuredOutputs& outputs) {
    static GrammarCache cache(&tokenizer());
    auto matcher = cache.matcher(outputs);
    EXPECT_TRUE(matcher.ok()) << matcher.status().message();
    return matcher;
  }

  static TokenId pick(const std::vector<bool>& may, Rng& rng, int step) {
    if (may[0] && (rng.next_double() < 0.2 || step > 200)) return 0;
    const double eager = step > 100 ? 0.8 : 0.25;
    if (rng.next_double() < eager) {
      for (const char c : {'"', '}', ']', ':', '1'}) {
        const size_t id = testing::PieceTokenizer::kFirstByte + static_cast<unsigned char>(c);
        if (may[id] && rng.next_double() < 0.7) return static_cast<TokenId>(id);
      }
    }
    std::vector<TokenId> ids;
    for (size_t id = 0; id < may.size(); ++id) {
      if (may[id]) ids.push_back(static_cast<TokenId>(id));
    }
    if (ids.empty()) return -1;
    return ids[static_cast<size_t>(rng.next_double() * static_cast<double>(ids.size()))];
  }

  // A token is allowed where its bytes are, one after the other.
  static void check_by_bytes(const Matcher& matcher, const std::vector<bool>& may, Rng& rng) {
    for (int i = 0; i < 8; ++i) {
      const auto last = static_cast<double>(tokenizer().vocab_size() - 258);
      const auto id = static_cast<TokenId>(258 + rng.next_double() * last);
      Matcher slow = matcher;
      bool alive = true;
      for (const char c : tokenizer().token_bytes(id, false)) {
        const TokenId byte = testing::PieceTokenizer::kFirstByte + static_cast<unsigned char>(c);
        alive = alive && allowed(slow)[static_cast<size_t>(byte)];
        slow.accept(byte);
      }
      EXPECT_EQ(may[static_cast<size_t>(id)], alive) << tokenizer().token_bytes(id, false);
    }
  }

  Result<Matcher> matcher_;
};

}  // namespace octavo::grammar
