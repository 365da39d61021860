// GBNF, regular expressions, choices and JSON objects, by the texts that they take.
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/utf8.h"
#include "unit/grammar/grammar_walk.h"

namespace octavo::grammar {
namespace {

struct Sample {
  StructuredOutputs outputs;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

void check(const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) {
    const std::string name = sample.outputs.regex.value_or(sample.outputs.grammar.value_or("?"));
    const GrammarWalk walk(sample.outputs);
    for (const auto& text : sample.accepted)
      EXPECT_TRUE(walk.accepts(text)) << name << ": " << text;
    for (const auto& text : sample.refused)
      EXPECT_FALSE(walk.accepts(text)) << name << ": " << text;
  }
}

TEST(Regex, TakesWholeTextsOnly) {
  const auto re = GrammarWalk::regex;
  check({
      {re("abc"), {"abc"}, {"", "ab", "abcd", "xabc"}},
      {re("^abc$"), {"abc"}, {"ab", "^abc$"}},
      {re("a|bc|"), {"a", "bc", ""}, {"b", "abc"}},
      {re("^a|b$"), {"a", "b"}, {"ab"}},
      {re("(^a|b)c"), {"ac", "bc"}, {"c"}},
      {re("(a|b)*c+d?"), {"c", "abbacc", "acd"}, {"ab", "d", "cdd"}},
      {re("a{2,3}b{2}c{1,}"), {"aabbc", "aaabbcc"}, {"abbc", "aaaabbc", "aabc", "aabb"}},
      {re("(ab){0,2}"), {"", "ab", "abab"}, {"a", "ababab"}},
      {re("(?:a?){3}b"), {"b", "ab", "aaab"}, {"aaaab"}},
      {re("(?<year>\\d{4})-\\w+"), {"2024-a_9"}, {"24-a", "2024-", "2024-\xC3\xA9"}},
      {re("[a-c\\d_-]+"), {"a", "3_-", "c"}, {"", "d", " "}},
      {re("[^\\d\\n]"), {"x", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"1", "\n", "\xC3", "xx"}},
      {re("."),
       {"x", "\xE2\x82\xAC", "\xE2\x80\xA7"},
       {"\n", "\r", "\xE2\x80\xA8", "\xE2\x80\xA9", "", "\xE2\x82"}},
      {re("\\S\\s\\S"), {"a b", "a\tb"}, {"a\xC2\xA0z", "   "}},
      {re("[\\u00e0-\\u00e9]"), {"\xC3\xA0", "\xC3\xA9"}, {"\xC3\x9F", "\xC3\xAA"}},
      {re("a.{0,3000}b"),
       {"ab", "a" + std::string(3000, 'x') + "b"},
       {"a" + std::string(3001, 'x') + "b"}},
      {re("\\x41\\.\\/\\u20ac"), {"A./\xE2\x82\xAC"}, {"Ax/\xE2\x82\xAC"}},
      {re("(a*)*b"), {"b", "aab"}, {"a"}},
      {re("(x+x+)+y"), {"xxy", "xxxxxxxxy"}, {"xy", "xxxx"}},
  });
}

TEST(Regex, RefusesWhatItCannotHold) {
  for (const char* text :
       {"(?=a)", "(?!a)",   "(?<=a)b",     "(?i)a",     "\\bword", "a\\1",  "(a)\\1",
        "a++",   "a**",     "[[:alpha:]]", "\\p{L}",    "(",       ")",     "a)",
        "[",     "[]",      "[z-a]",       "[^\\s\\S]", "a{3,2}",  "a{,3}", "a{1",
        "*a",    "a^b",     "a$b",         "(a$)b",     "(^a)*",   "(a$)?", "\\",
        "\\xZZ", "\\ud800", "a{1000001}",  "\xFF",      "(?P=n)",  "(?<n",  "{2}"}) {
    const Status status = GrammarWalk::status_of(GrammarWalk::regex(text));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("structured_outputs.regex: "), std::string::npos) << text;
  }
  EXPECT_FALSE(GrammarWalk::status_of(GrammarWalk::regex(std::string(5000, '('))).ok());
}

TEST(Gbnf, TakesWhatItsRulesSay) {
  const auto g = GrammarWalk::gbnf;
  check({
      {g("root ::= \"a\" b?\nb ::= [0-9]+ # digits\n"), {"a", "a12"}, {"", "b", "a1b"}},
      {g("# first\n\nroot ::=\n  x |\n  y\nx ::= \"x\"{2,3}\ny ::= \"y\"{,2}"),
       {"xx", "xxx", "", "yy"},
       {"x", "xxxx", "yyy", "xy"}},
      {g("root ::= (\"a\"\n  | \"b\" # c\n)* \"\\n\""), {"\n", "abba\n"}, {"ab", "\nab"}},
      {g("root ::= \"(\" root \")\" | \"\""), {"", "()", "((((()))))"}, {"(", "(()", ")("}},
      {g("root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\""),
       {"1", "1+(2+30)", "((1))"},
       {"", "1+", "(1", "1)"}},
      {g("root ::= [^a-z\\]\\\"] . \"\\x41\\u20ac\""), {"A\nA\xE2\x82\xAC"}, {"a\nA\xE2\x82\xAC"}},
      {g("root ::= \"x\"{1000} \"y\"{3,}"),
       {std::string(1000, 'x') + "yyy"},
       {std::string(999, 'x') + "yyy", std::string(1001, 'x') + "yyy"}},
  });
}

TEST(Gbnf, NamesTheLineOfAnError) {
  const struct {
    const char* text;
    const char* message;
  } kBad[] = {
      {"", "no rule root"},
      {"a ::= \"x\"", "no rule root"},
      {"root ::= a", "the rule a is not defined"},
      {"root ::= \"a\"\n\nroot ::= \"b\"", "line 3: root is defined twice"},
      {"root ::= root \"a\" | \"b\"", "the rule root begins with itself"},
      {"root ::= a* root | \"y\"\na ::= \"x\"?", "begins with itself"},
      {"root ::= \"x\" root", "no text can match the rule root"},
      {"root ::= \"abc", "a \" is missing"},
      {"root ::= [abc", "a ] is missing"},
      {"root ::= []", "a class has no characters"},
      {"root ::= (\"a\"", "a ) is missing"},
      {"root ::= \"a\")", "')' is not understood"},
      {"root = \"a\"", "::= is missing"},
      {"::= \"a\"", "a rule must begin with its name"},
      {"root ::= \"a\"{3,1}", "above its most"},
      {"root ::= \"a\"{99999999999}", "counts beyond"},
      {"root ::= \"\\q\"", "an escape is not known"},
      {"root ::= \"\\uD800\"", "no character"},
      {"root ::= (\"a\"?){2,1000}", "may be empty"},
      {"root ::= <|token|>", "not understood"},
  };
  for (const auto& [text, message] : kBad) {
    const Status status = GrammarWalk::status_of(GrammarWalk::gbnf(text));
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  EXPECT_FALSE(
      GrammarWalk::status_of(GrammarWalk::gbnf("root ::= " + std::string(100000, '('))).ok());
  EXPECT_FALSE(
      GrammarWalk::status_of(GrammarWalk::gbnf("root ::= \"a\"" + std::string(100000, '*'))).ok());
}

TEST(Choice, IsOneOfThese) {
  StructuredOutputs outputs;
  outputs.choice = {"yes", "no", "yes, but", "", "\xC3\xA9\xC3\xA9"};
  const GrammarWalk walk(outputs);
  for (const auto& text : outputs.choice) EXPECT_TRUE(walk.accepts(text)) << text;
  for (const char* text : {"ye", "yes, ", "nope", "\xC3"}) EXPECT_FALSE(walk.accepts(text)) << text;
}

TEST(JsonObject, IsAnyObject) {
  StructuredOutputs outputs;
  outputs.json_object = true;
  const GrammarWalk walk(outputs);
  for (const char* text :
       {"{}", "{ }", R"({"a":[1,-2.5e+3,{"b":null}], "c" : "\u00e9\ud83d\ude00\n"})",
        "{\n  \"a\": 1\n}"}) {
    EXPECT_TRUE(walk.accepts(text)) << text;
  }
  for (const char* text : {"", "[]", "{", "{\"a\"}", "{\"a\":1,}", "{\"a\":01}",
                           "{\"a\":\"\\ud800\"}", "{\"a\":\"\n\"}", "{}{}", "{\"a\":tru}"}) {
    EXPECT_FALSE(walk.accepts(text)) << text;
  }
  Rng rng(1);
  for (int i = 0; i < 100; ++i) {
    const std::string text = walk.random_text(rng);
    const auto json = parse_json(text, "answer");
    EXPECT_TRUE(json.ok() && json->is_object()) << text;
  }
}

TEST(StructuredOutputs, AreExactlyOneKind) {
  StructuredOutputs outputs;
  EXPECT_FALSE(GrammarWalk::status_of(outputs).ok());
  outputs.json_object = true;
  EXPECT_TRUE(GrammarWalk::status_of(outputs).ok());
  outputs.regex = "a";
  EXPECT_FALSE(GrammarWalk::status_of(outputs).ok());
  EXPECT_FALSE(GrammarCache(nullptr).matcher(GrammarWalk::regex("a")).ok());
}

TEST(Matcher, AllowsTokensThatAreCutThroughCharacters) {
  const GrammarWalk walk(GrammarWalk::regex("\xC3\xA9{2}\xE2\x82\xAC"));
  Rng rng(3);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(walk.random_text(rng), "\xC3\xA9\xC3\xA9\xE2\x82\xAC");
}

TEST(Matcher, NeverTakesControlTokensForText) {
  GrammarCache cache(&GrammarWalk::tokenizer());
  auto matcher = cache.matcher(GrammarWalk::regex("true")).value();
  EXPECT_FALSE(GrammarWalk::allowed(matcher)[1]);
  EXPECT_FALSE(GrammarWalk::allowed(matcher)[0]);
  matcher.accept(1);
  for (const bool may : GrammarWalk::allowed(matcher)) EXPECT_FALSE(may);
}

TEST(Matcher, EndsOnlyAfterTheEnd) {
  GrammarCache cache(&GrammarWalk::tokenizer());
  auto matcher = cache.matcher(GrammarWalk::regex("a?")).value();
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.must_end());
  auto copy = matcher;
  copy.accept(testing::PieceTokenizer::kFirstByte + 'a');
  EXPECT_TRUE(copy.must_end());
  EXPECT_FALSE(matcher.must_end());
  copy.accept(0);
  const auto may = GrammarWalk::allowed(copy);
  EXPECT_TRUE(may[0]);
  EXPECT_EQ(std::count(may.begin(), may.end(), true), 1);
}

// Memory does not grow with the answer, and a deep stack comes back.
TEST(Matcher, FollowsLongAndDeepTexts) {
  StructuredOutputs outputs;
  outputs.json_object = true;
  std::string text = R"({"a":)" + std::string(3000, '[') + std::string(3000, ']') + ",\"b\":[1";
  for (int i = 0; i < 3000; ++i) text += ", {\"c\":[2]}";
  text += "]}";
  EXPECT_TRUE(GrammarWalk(outputs).accepts(text));
}

TEST(Matcher, GivesUpOnHopelessAmbiguity) {
  GrammarCache cache(&GrammarWalk::tokenizer());
  auto matcher =
      cache.matcher(GrammarWalk::gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\""))
          .value();
  Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) {
    std::vector<float> logits(300);
    status = matcher.mask(logits);
    matcher.accept(testing::PieceTokenizer::kFirstByte + 'a');
  }
  EXPECT_NE(status.message().find("too ambiguous"), std::string::npos);
}

// Tokens that end more than a mask looks at, of a vocabulary that has many of them.
class LongTokens : public testing::PieceTokenizer {
 public:
  int64_t vocab_size() const override { return PieceTokenizer::vocab_size() + 1000; }
  std::string token_bytes(TokenId id, bool show_special) const override {
    if (id < PieceTokenizer::vocab_size()) return PieceTokenizer::token_bytes(id, show_special);
    return std::string(static_cast<size_t>(20 + id % 8), 'a');
  }
};

TEST(Matcher, BoundsTheWorkOfOneMask) {
  const LongTokens tokenizer;
  GrammarCache cache(&tokenizer);
  auto matcher = cache.matcher(GrammarWalk::gbnf("root ::= \"b\" root \"a\"? | \"\"")).value();
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()));
  for (int i = 0; i < 30; ++i) matcher.accept(testing::PieceTokenizer::kFirstByte + 'b');
  EXPECT_EQ(matcher.mask(logits).message(), "");
  EXPECT_FALSE(std::isinf(logits.back()));
  for (int i = 0; i < 2000; ++i) matcher.accept(testing::PieceTokenizer::kFirstByte + 'b');
  EXPECT_NE(matcher.mask(logits).message().find("too ambiguous"), std::string::npos);
}

// A grammar of 2^12 states, so that masks are forgotten and made again.
TEST(Matcher, MasksStayRightWhenManyAreForgotten) {
  const GrammarWalk walk(GrammarWalk::regex("[ab]*a[ab]{11}"));
  Rng rng(5);
  std::string text;
  for (int i = 0; i < 6000; ++i) text += rng.next_double() < 0.5 ? 'a' : 'b';
  text[text.size() - 12] = 'a';
  EXPECT_TRUE(walk.accepts(text));
  text[text.size() - 12] = 'b';
  EXPECT_FALSE(walk.accepts(text));
}

class EndlessTokens : public testing::PieceTokenizer {
 public:
  std::span<const TokenId> stop_ids() const override { return {}; }
};

TEST(GrammarCache, NeedsATokenThatEnds) {
  const EndlessTokens tokenizer;
  const Status status = GrammarCache(&tokenizer).matcher(GrammarWalk::regex("a")).status();
  EXPECT_NE(status.message().find("needs a model with an end token"), std::string::npos);
}

TEST(Compile, BoundsHostileGrammars) {
  std::string many = "root ::= r0";
  for (int i = 0; i < 20000; ++i) many += "\nr" + std::to_string(i) + " ::= \"abcdefghijkl\"{5}";
  EXPECT_FALSE(GrammarWalk::status_of(GrammarWalk::gbnf(many)).ok());
  EXPECT_FALSE(GrammarWalk::status_of(GrammarWalk::regex(std::string(2 << 20, 'a'))).ok());
  std::string parts;
  for (int i = 0; i < 520'000; ++i) parts += ".*";
  EXPECT_NE(GrammarWalk::status_of(GrammarWalk::regex(parts)).message().find("is too large"),
            std::string::npos);
  const auto chain = [](int length) {
    std::string text = "root ::= r0\nr" + std::to_string(length) + " ::= \"x\"";
    for (int i = 0; i < length; ++i) {
      text += "\nr" + std::to_string(i) + " ::= r" + std::to_string(i + 1);
    }
    return GrammarWalk::gbnf(text);
  };
  EXPECT_TRUE(GrammarWalk(chain(1000)).accepts("x"));
  EXPECT_FALSE(GrammarWalk::status_of(chain(30000)).ok());
}

}  // namespace
}  // namespace octavo::grammar
