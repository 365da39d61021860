#include "base/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/format.h"

namespace octavo {
namespace {

// About 20 µs of pauses on a 2.6 GHz Zen 4 before a waiter sleeps: longer than the gap between two
// regions of a decode step, shorter than a scheduler's time slice, so that an oversubscribed
// machine does not burn its time in barriers.
constexpr int kSpins = 2000;

// A part is what is left, divided by the threads and by this: threads end at about the same time,
// and most of the work is done in few parts.
constexpr int64_t kShare = 4;

// At most. Only of more than 2,000 grains a thread the last part is a larger one.
constexpr int64_t kPartsPerThread = 32;

// What a ticket has room for.
constexpr int64_t kMaxParts = 0xFFFF;

void pause_cpu() {
  __builtin_ia32_pause();
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr,
          nullptr, 0);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  OCTAVO_CHECK(num_threads >= 1);
  part_ends_.resize(std::min(num_threads * kPartsPerThread, kMaxParts));
  workers_.reserve(num_threads - 1);
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      workers_.emplace_back([this, thread] { worker_loop(thread); });
    }
  } catch (...) {
    stop_workers();
    throw;
  }
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int num_threads) {
  try {
    return std::make_unique<ThreadPool>(num_threads);
  } catch (const std::system_error& error) {
    return resource_exhausted(format("cannot start {} threads: {}", num_threads, error.what()));
  }
}

ThreadPool::~ThreadPool() {
  stop_workers();
}

void ThreadPool::stop_workers() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1);
  futex_wake_all(epoch_);
  for (std::thread& worker : workers_) worker.join();
}

// Fills part_ends_; returns how many parts there are.
uint64_t ThreadPool::split(int64_t n, int64_t grain) {
  const int64_t share = kShare * num_threads() * grain;
  const size_t most = part_ends_.size();
  size_t parts = 0;
  for (int64_t end = 0; end < n; ++parts) {
    end = parts + 1 == most ? n : std::min(n, end + (n - end + share - 1) / share * grain);
    part_ends_[parts] = end;
  }
  return parts;
}

void ThreadPool::run(int64_t n, int64_t grain, Task task, void* context) {
  OCTAVO_DCHECK(grain >= 1);
  if (n <= 0) return;
  const int64_t grains = (n + grain - 1) / grain;
  const int64_t threads = num_threads();
  if (grains == 1 || threads == 1) {
    task(context, 0, n, 0);
    return;
  }
  task_ = task;
  context_ = context;
  const uint64_t parts = split(n, grain);
  parts_done_.store(0, std::memory_order_relaxed);
  ticket_.store(uint64_t{epoch_.load(std::memory_order_relaxed) + 1} << 32 | parts << 16,
                std::memory_order_release);
  // Sequentially consistent, as is the sleeper's increment: either the sleeper sees the new epoch
  // or the driver sees the sleeper.
  epoch_.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake_all(epoch_);
  run_parts(0);
  for (int spins = 0; parts_done_.load(std::memory_order_acquire) != static_cast<int64_t>(parts);
       ++spins) {
    // The driver only waits for running threads; when one was descheduled, give it this core.
    if (spins < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::run_parts(int thread) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (true) {
    const auto taken = static_cast<int64_t>(ticket & 0xFFFF);
    if (taken >= static_cast<int64_t>(ticket >> 16 & 0xFFFF)) return;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire)) continue;
    task_(context_, taken == 0 ? 0 : part_ends_[taken - 1], part_ends_[taken], thread);
    parts_done_.fetch_add(1, std::memory_order_release);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

uint32_t ThreadPool::wait_for_epoch(uint32_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    const uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (epoch != seen) return epoch;
    pause_cpu();
  }
  sleepers_.fetch_add(1);
  uint32_t epoch = epoch_.load();
  while (epoch == seen) {
    futex_wait(epoch_, seen);
    epoch = epoch_.load();
  }
  sleepers_.fetch_sub(1);
  return epoch;
}

void ThreadPool::worker_loop(int thread) {
  uint32_t seen = 0;
  while (true) {
    seen = wait_for_epoch(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    run_parts(thread);
  }
}

}  // namespace octavo
