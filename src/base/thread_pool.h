// The compute threads. One pool per process, passed in, never global. parallel_for splits a range
// into one contiguous part per thread, so that what a thread computes is a function of range and
// thread count alone; the caller is one of the threads. Waiting spins shortly, then sleeps.
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

  // Calls fn(begin, end, thread) once per thread with disjoint parts of [0, n); a part's length is
  // a multiple of `grain` (>= 1) but for the last; threads without work are not called. Returns
  // when all are done. Not reentrant: fn must not call parallel_for, and one thread drives the
  // pool.
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
  void stop_workers();
  void worker_loop(int thread);
  void run_part(int thread) const;
  uint32_t wait_for_epoch(uint32_t seen);

  // Written by the driver before epoch_ is bumped, read by workers after they see it.
  Task task_ = nullptr;
  void* context_ = nullptr;
  int64_t n_ = 0;
  int64_t part_ = 0;

  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int32_t> pending_{0};
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
