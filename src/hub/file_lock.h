// FileLock: one process (and one thread of it) at a time. The same call on the same files as
// Hugging Face's library uses, so that the two do not download one file at once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "octavo/status.h"

namespace octavo::hub {

class FileLock {
 public:
  // Makes the file and its folders where they are missing, and waits for the lock. `waiting` is
  // asked again and again meanwhile; its error ends the wait.
  static Result<std::unique_ptr<FileLock>> acquire(const std::string& path,
                                                   const std::function<Status()>& waiting);

  // Whether another holder has the lock now. A file that is missing is not locked.
  static bool is_held(const std::string& path);

  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace octavo::hub
