// IoLoop: one I/O thread and its queue. Everything of a connection runs on one loop, so that
// nothing in it needs a lock. What other threads post is gathered: a step of the engine has an
// event for each of its streams and wakes the thread once.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo::server {

class IoLoop {
 public:
  using Task = std::function<void()>;

  ~IoLoop() { join(); }

  void start();
  // Waits until no connection of the loop has anything left to wait for.
  void join();

  boost::asio::io_context& context() { return context_; }
  bool is_own_thread() { return context_.get_executor().running_in_this_thread(); }

  // Runs `task` later on the loop's thread, after all that were posted before. Any thread.
  void post(Task task);

 private:
  void run();
  void run_tasks();

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  std::thread thread_;
  std::mutex mutex_;  // guards tasks_
  std::vector<Task> tasks_;
  std::vector<Task> running_;  // keeps its memory from one time to the next
};

}  // namespace octavo::server
