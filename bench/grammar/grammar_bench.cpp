// What structured outputs cost, on one thread: random answers to a JSON schema, the first and a
// later one. Usage:
//   bench_grammar MODEL [SCHEMA]
// MODEL has the vocabulary; SCHEMA is a schema's text, by default one with strings, numbers, lists
// and a recursion.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "grammar/grammar_cache.h"
#include "octavo/model.h"

namespace octavo::bench {
namespace {

constexpr int kAnswers = 20;
constexpr int kMaxTokens = 400;

constexpr const char* kSchema = R"({"type":"object","properties":{
  "name":{"type":"string"},"summary":{"type":"string","maxLength":400},"year":{"type":"integer"},
  "score":{"type":"number"},"kind":{"enum":["news","opinion","review"]},
  "tags":{"type":"array","items":{"type":"string"}},
  "parts":{"type":"array","items":{"$ref":"#"}}},
  "required":["name","summary","year","score","kind","tags","parts"]})";

struct Times {
  std::vector<double> mask_s;  // of each token
  double accept_s = 0;
};

// A token of those that are left, at random; likelier one that ends something.
TokenId choose(const std::vector<float>& logits, Rng& rng) {
  std::vector<TokenId> left;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!std::isinf(logits[id])) left.push_back(static_cast<TokenId>(id));
  }
  if (left.empty()) return -1;
  return left[static_cast<size_t>(rng.next_double() * static_cast<double>(left.size()))];
}

// One answer; what is masked is not measured together with refilling the row.
Status walk(grammar::Matcher matcher, int64_t vocab_size, Rng& rng, Times& times) {
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (int i = 0; i < kMaxTokens && !matcher.must_end(); ++i) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    double start = now_seconds();
    const Status status = matcher.mask(logits);
    times.mask_s.push_back(now_seconds() - start);
    if (!status.ok()) return status;
    const TokenId id = choose(logits, rng);
    if (id < 0) return {};
    start = now_seconds();
    matcher.accept(id);
    times.accept_s += now_seconds() - start;
  }
  return {};
}

void print(const char* name, Times& times) {
  std::sort(times.mask_s.begin(), times.mask_s.end());
  double sum = 0;
  for (const double s : times.mask_s) sum += s;
  const auto count = static_cast<double>(times.mask_s.size());
  std::printf(
      "%-14s %6.0f tokens, masks: mean %8.1f us, median %8.1f, most %8.1f; accept %5.2f us\n", name,
      count, 1e6 * sum / count, 1e6 * times.mask_s[times.mask_s.size() / 2],
      1e6 * times.mask_s.back(), 1e6 * times.accept_s / count);
}

int fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: see the head of bench/grammar/grammar_bench.cpp\n");
    return 2;
  }
  const auto tokenizer = load_tokenizer(argv[1]);
  if (!tokenizer.ok()) return fail(tokenizer.status());
  const int64_t vocab_size = (*tokenizer)->vocab_size();
  grammar::GrammarCache cache(tokenizer->get());
  StructuredOutputs outputs;
  outputs.regex = "a";
  double start = now_seconds();
  if (const auto first = cache.matcher(outputs); !first.ok()) return fail(first.status());
  std::printf("vocabulary of %lld: %.1f ms\n", static_cast<long long>(vocab_size),
              1e3 * (now_seconds() - start));
  outputs.regex.reset();
  outputs.json = argc > 2 ? argv[2] : kSchema;
  start = now_seconds();
  const auto matcher = cache.matcher(outputs);
  if (!matcher.ok()) return fail(matcher.status());
  std::printf("schema: %.2f ms\n", 1e3 * (now_seconds() - start));
  for (const char* name : {"first answers", "later answers"}) {
    Rng rng(1);
    Times times;
    for (int i = 0; i < kAnswers; ++i) {
      if (const Status s = walk(*matcher, vocab_size, rng, times); !s.ok()) return fail(s);
    }
    print(name, times);
  }
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  return octavo::bench::run(argc, argv);
}
