#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace octavo {
namespace {

TEST(ThreadPool, CoversEveryIndexOnceInContiguousParts) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        // Plain ints: a range that two threads share would be a race.
        std::vector<int> visits(n, 0);
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
          EXPECT_LT(begin, end);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end == n || end % grain == 0);
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const int v : visits) ASSERT_EQ(v, 1) << n << " by " << grain;
      }
    }
  }
}

TEST(ThreadPool, OthersDoTheWorkOfAThreadThatIsHeldUp) {
  ThreadPool pool(3);
  std::atomic<int64_t> done{0};
  pool.parallel_for(12, 1, [&](int64_t begin, int64_t end, int) {
    // The first part ends only when all others have: no thread has a share that waits for it.
    while (begin == 0 && done.load() < 12 - end) std::this_thread::yield();
    done.fetch_add(end - begin);
  });
  EXPECT_EQ(done.load(), 12);
}

TEST(ThreadPool, PartsBecomeSmaller) {
  ThreadPool pool(2);
  for (const int64_t n : {30, 1536, 4000}) {
    std::vector<int64_t> ends(n, 0);
    pool.parallel_for(n, 1, [&](int64_t begin, int64_t end, int) { ends[begin] = end; });
    int64_t last = n;
    int64_t parts = 0;
    for (int64_t begin = 0; begin < n; begin = ends[begin], ++parts) {
      const int64_t size = ends[begin] - begin;
      ASSERT_GT(size, 0);
      ASSERT_LE(size, last);
      last = size;
    }
    EXPECT_LE(parts, 64);
    EXPECT_EQ(last, 1) << n;
  }
}

TEST(ThreadPool, MoreThreadsThanPartsFitIntoATicket) {
  const auto pool = ThreadPool::create(2100);
  if (!pool.ok()) GTEST_SKIP() << pool.status().message();
  std::atomic<int64_t> done{0};
  (*pool)->parallel_for(1'000'000, 1,
                        [&](int64_t begin, int64_t end, int) { done.fetch_add(end - begin); });
  EXPECT_EQ(done.load(), 1'000'000);
}

TEST(ThreadPool, AThreadIsInOneCallAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  for (int round = 0; round < 500; ++round) {
    pool.parallel_for(64, 1, [&](int64_t, int64_t, int thread) {
      EXPECT_EQ(inside[thread].fetch_add(1), 0);
      inside[thread].fetch_sub(1);
    });
  }
}

TEST(ThreadPool, ManyRoundsSeeEachOthersResults) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 2000; ++round) {
    // Each round reads what another thread wrote in the one before.
    std::vector<int64_t> next(64);
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) next[i] = values[(i + 17) % 64] + 1;
    });
    values.swap(next);
  }
  for (const int64_t v : values) ASSERT_EQ(v, 2000);
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    // Long enough for the workers to give up spinning.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<int> visits(3, 0);
    pool.parallel_for(3, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ++visits[i];
    });
    ASSERT_EQ(visits, std::vector<int>(3, 1));
  }
}

TEST(ThreadPool, ACallThatFitsOneGrainStaysOnTheCaller) {
  ThreadPool pool(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::thread::id ran;
  pool.parallel_for(10, 10, [&](int64_t, int64_t, int thread) {
    ran = std::this_thread::get_id();
    EXPECT_EQ(thread, 0);
  });
  EXPECT_EQ(ran, caller);
}

TEST(CpuLimits, AreSane) {
  EXPECT_GE(available_threads(), 1);
  EXPECT_LE(available_threads(), cpu_limits().num_cpus);
  EXPECT_GE(cpu_limits().quota, 0);
}

}  // namespace
}  // namespace octavo
