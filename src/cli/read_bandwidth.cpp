#include "cli/read_bandwidth.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread_pool.h"

namespace octavo::cli {

double measure_read_bandwidth(int threads) {
  constexpr int64_t kWords = int64_t{32} << 20;
  std::vector<uint64_t> memory(kWords, 1);
  std::vector<uint64_t> sums(threads);
  ThreadPool pool(threads);
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = now_seconds();
    pool.parallel_for(kWords, 64, [&](int64_t begin, int64_t end, int thread) {
      // Eight sums, so that the additions do not wait for each other.
      uint64_t partial[8] = {};
      for (int64_t i = begin; i + 8 <= end; i += 8) {
        for (int k = 0; k < 8; ++k) partial[k] += memory[i + k];
      }
      sums[thread] += std::accumulate(partial, partial + 8, uint64_t{0});
    });
    best = std::max(best, static_cast<double>(kWords) * sizeof(uint64_t) / (now_seconds() - start));
  }
  OCTAVO_CHECK(std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 5 * kWords);
  return best;
}

}  // namespace octavo::cli
