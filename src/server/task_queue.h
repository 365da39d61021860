// TaskQueue: a few threads for what is too slow for an I/O thread: parsing large bodies, templates,
// tokenizing. Bounded: a full queue refuses.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo::server {

class TaskQueue {
 public:
  TaskQueue(int num_threads, size_t max_tasks);
  ~TaskQueue() { stop(); }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // False where it is full or stopped. A task must not throw.
  bool push(std::function<void()> task);

  // Runs what is queued and joins the threads.
  void stop();

 private:
  void run();

  const size_t max_tasks_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace octavo::server
