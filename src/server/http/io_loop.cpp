#include "server/http/io_loop.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "base/log.h"

namespace octavo::server {

void IoLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void IoLoop::join() {
  work_.reset();
  if (thread_.joinable()) thread_.join();
}

void IoLoop::post(Task task) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (is_first) boost::asio::post(context_, [this] { run_tasks(); });
}

void IoLoop::run_tasks() {
  {
    const std::lock_guard lock(mutex_);
    running_.swap(tasks_);
  }
  for (Task& task : running_) {
    try {
      std::exchange(task, nullptr)();        // with what it holds, before the next one
    } catch (const std::exception& error) {  // costs one task, not those after it
      log_warning("an I/O task failed: {}", error.what());
    }
  }
  running_.clear();
}

// A handler that ran out of memory costs its request, not the server.
void IoLoop::run() {
  pthread_setname_np(pthread_self(), "octavo-http-io");
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& error) {
      log_warning("an I/O handler failed: {}", error.what());
    }
  }
}

}  // namespace octavo::server
