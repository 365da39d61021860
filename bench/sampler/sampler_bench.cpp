// What choosing a token costs, on one thread: microseconds for each kind of sampling. Usage:
//   bench_sampler [VOCAB_SIZE] [SPREAD]
// Logits are normal numbers whose deviation is SPREAD: 3 is like a model's, 0.1 nearly flat.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/logits_processor.h"
#include "engine/logprobs.h"

namespace octavo::bench {
namespace {

using engine::LogitsProcessor;
using engine::Sampler;

constexpr int kRows = 16;  // more than a core's caches hold
constexpr int kRounds = 40;

struct Kind {
  const char* name;
  SamplingParams params;
};

std::vector<Kind> kinds() {
  std::vector<Kind> list{{"greedy", {}},    {"temperature 1", {}}, {"top_k 50", {}},
                         {"top_p 0.9", {}}, {"min_p 0.05", {}},    {"penalties", {}},
                         {"logprobs 5", {}}};
  for (Kind& kind : list) {
    kind.params.temperature = 1;
    kind.params.seed = 1;
  }
  list[0].params.temperature = 0;
  list[2].params.top_k = 50;
  list[3].params.top_p = 0.9f;
  list[4].params.min_p = 0.05f;
  list[5].params.repetition_penalty = 1.1f;
  list[5].params.frequency_penalty = 0.2f;
  list[6].params.logprobs = 5;
  return list;
}

std::vector<float> make_row(Rng& rng, int64_t vocab_size, double spread) {
  std::vector<float> row(vocab_size);
  for (float& x : row) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    x = static_cast<float>(spread * radius * std::cos(2 * std::numbers::pi * rng.next_double()));
  }
  return row;
}

// Seconds a token, the median of the rounds; less than 0 where something fails.
double measure(const Kind& kind, const std::vector<std::vector<float>>& rows) {
  const auto vocab_size = static_cast<int64_t>(rows[0].size());
  Request request;
  request.sampling = kind.params;
  for (int64_t i = 0; i < 256; ++i) {
    request.prompt_token_ids.push_back(static_cast<TokenId>(i * 7919 % vocab_size));
  }
  auto processor = LogitsProcessor::create(request, nullptr, vocab_size);
  if (!processor.ok()) return -1;
  Sampler sampler(kind.params);
  engine::SamplerScratch scratch;
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const double start = now_seconds();
    for (const std::vector<float>& row : rows) {
      const auto id = engine::choose_by_rules(row, {}, *processor, sampler, scratch);
      if (!id.ok()) return -1;
      if (kind.params.logprobs) engine::token_logprobs(row, *id, *kind.params.logprobs);
    }
    seconds.push_back((now_seconds() - start) / kRows);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

int run(int argc, char** argv) {
  const int64_t vocab_size = argc > 1 ? std::atoll(argv[1]) : 49152;
  const double spread = argc > 2 ? std::atof(argv[2]) : 3;
  if (vocab_size < 1 || vocab_size > 10'000'000 || !(spread >= 0 && spread < 1e6)) {
    std::fprintf(stderr, "usage: see the head of bench/sampler/sampler_bench.cpp\n");
    return 2;
  }
  Rng rng(1);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < kRows; ++i) rows.push_back(make_row(rng, vocab_size, spread));
  for (const Kind& kind : kinds()) {
    const double seconds = measure(kind, rows);
    if (seconds < 0) return 1;
    std::printf("%-14s %8.1f us a token\n", kind.name, 1e6 * seconds);
  }
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  return octavo::bench::run(argc, argv);
}
