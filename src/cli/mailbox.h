// Mailbox: tasks for one thread from any thread, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace octavo::cli {

class Mailbox {
 public:
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_one();
  }

  // Waits for a task, then runs what there is.
  void run() {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !tasks_.empty(); });
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace octavo::cli
