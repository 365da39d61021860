// The compute threads. One pool per process, passed in, never global. parallel_for splits a range
// into contiguous parts, large ones first, which the threads take as they come free; the caller is
// one of them. So a thread whose core is taken away costs at most the part that it is in: the
// others do the rest, and nobody waits for a thread that sleeps. Waiting spins shortly, then
// sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "octavo/status.h"

namespace octavo {

class ThreadPool {
 public:
  // `num_threads` >= 1 counts the calling thread. Throws std::system_error where the system refuses
  // that many; `create` makes that an error value.
  explicit ThreadPool(int num_threads);
  static Result<std::unique_ptr<ThreadPool>> create(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(begin, end, thread) with disjoint parts of [0, n) that cover it; a part's length is a
  // multiple of `grain` (>= 1) but for the last. Which thread computes which part is open, and a
  // thread may be called several times or never; at any time there is one call for a `thread` in
  // [0, num_threads). Returns when all are done. Not reentrant: fn must not call parallel_for, and
  // one thread drives the pool.
  template <typename Fn>
  void parallel_for(int64_t n, int64_t grain, Fn&& fn) {
    run(
        n, grain,
        [](void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<Fn>*>(context))(begin, end, thread);
        },
        &fn);
  }

 private:
  using Task = void (*)(void* context, int64_t begin, int64_t end, int thread);

  void run(int64_t n, int64_t grain, Task task, void* context);
  uint64_t split(int64_t n, int64_t grain);
  void stop_workers();
  void worker_loop(int thread);
  void run_parts(int thread);
  uint32_t wait_for_epoch(uint32_t seen);

  // Written by the driver before it publishes a ticket, read by who has taken a part of it: as long
  // as that part is not done, the driver waits.
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::vector<int64_t> part_ends_;

  // The call's number (32 bits), how many parts it has and how many are taken (16 bits each): one
  // word, so that a thread that comes late cannot take a part of another call.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int64_t> parts_done_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

// How many threads may run at once: the smaller of the CPUs this process may use (affinity) and the
// floor of its cgroup's CPU quota (v1 or v2), at least 1.
int available_threads();

struct CpuLimits {
  int num_cpus;  // CPUs of the affinity mask
  double quota;  // CPUs granted by the cgroup; 0: no limit
};
CpuLimits cpu_limits();

}  // namespace octavo
