#include "server/task_queue.h"

#include <pthread.h>

#include <utility>

namespace octavo::server {

TaskQueue::TaskQueue(int num_threads, size_t max_tasks) : max_tasks_(max_tasks) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

bool TaskQueue::push(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || tasks_.size() >= max_tasks_) return false;
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void TaskQueue::run() {
  pthread_setname_np(pthread_self(), "octavo-http-job");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

void TaskQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace octavo::server
