#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/format.h"

namespace octavo::hub {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

// A holder may remove the file as it lets go; a lock on a file that nobody else finds is worth
// nothing.
bool is_current(int fd, const std::string& path) {
  struct stat locked {};
  struct stat named {};
  return fstat(fd, &locked) == 0 && stat(path.c_str(), &named) == 0 &&
         locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
}

}  // namespace

Result<std::unique_ptr<FileLock>> FileLock::acquire(const std::string& path,
                                                    const std::function<Status()>& waiting) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return internal_error(format("cannot open {}: {}", path, std::strerror(errno)));
    std::unique_ptr<FileLock> lock(new FileLock(fd));
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return internal_error(format("cannot lock {}: {}", path, std::strerror(errno)));
      }
      OCTAVO_TRY(waiting());
      std::this_thread::sleep_for(kPollInterval);
    }
    if (is_current(fd, path)) return lock;
  }
}

bool FileLock::is_held(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const FileLock closer(fd);
  return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

FileLock::~FileLock() {
  close(fd_);
}

}  // namespace octavo::hub
