#include "cli/read_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread_pool.h"

namespace octavo::cli {
namespace {

constexpr int64_t kWords = int64_t{32} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

// Ahead of where hardware fetches by itself, which ends with each page of 4 KiB.
constexpr int64_t kAheadWords = 768;

uint64_t sum_words(const uint64_t* words, int64_t count) {
  // Eight sums, so that the additions do not wait for each other.
  uint64_t partial[8] = {};
  for (int64_t i = 0; i < count; i += 8) {
    __builtin_prefetch(words + i + kAheadWords);
    for (int k = 0; k < 8; ++k) partial[k] += words[i + k];
  }
  return std::accumulate(partial, partial + 8, uint64_t{0});
}

}  // namespace

double measure_read_bandwidth(int threads) {
  const size_t size_bytes = kWords * sizeof(uint64_t);
  const std::unique_ptr<uint64_t, decltype(&std::free)> memory(
      static_cast<uint64_t*>(std::aligned_alloc(kHugePage, size_bytes)), std::free);
  OCTAVO_CHECK(memory != nullptr);
  madvise(memory.get(), size_bytes, MADV_HUGEPAGE);  // as weights are asked for; a wish
  std::fill_n(memory.get(), kWords, 1);
  std::vector<uint64_t> sums(threads);
  ThreadPool pool(threads);
  double best = 0;
  constexpr int kPasses = 30;  // the first ones find a core that has just woken
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = now_seconds();
    pool.parallel_for(kWords, 64, [&](int64_t begin, int64_t end, int thread) {
      sums[thread] += sum_words(memory.get() + begin, end - begin);
    });
    best = std::max(best, static_cast<double>(size_bytes) / (now_seconds() - start));
  }
  OCTAVO_CHECK(std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == kPasses * kWords);
  return best;
}

}  // namespace octavo::cli
