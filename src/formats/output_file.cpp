#include "formats/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/format.h"

namespace octavo::formats {
namespace {

// Where the links from `path` lead; the last one may lead to nothing yet.
Result<std::string> follow_links(const std::string& path) {
  constexpr int kMaxLinks = 40;
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!std::filesystem::is_symlink(target, error)) return target.string();
    const auto next = std::filesystem::read_symlink(target, error);
    if (error) break;
    target = target.parent_path() / next;  // an absolute `next` stays alone
  }
  return invalid_argument(format("cannot create {}: too many symbolic links", path));
}

// Whether to write to `path` itself: it exists and cannot be replaced. Below /dev and /proc also
// regular files: they stand for what the process has open.
bool is_in_place(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  return !S_ISREG(info.st_mode) || path.starts_with("/dev/") || path.starts_with("/proc/");
}

}  // namespace

OutputFile::~OutputFile() {
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

Status OutputFile::open(const std::string& path) {
  OCTAVO_CHECK(file_ == nullptr && temporary_.empty());
  path_ = path;
  return is_in_place(path) ? open_in_place() : open_beside(OCTAVO_TRY(follow_links(path)));
}

Status OutputFile::open_in_place() {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return invalid_argument(format("cannot write {}: {}", path_, std::strerror(errno)));
  file_.reset(fdopen(fd, "ab"));
  OCTAVO_CHECK(file_ != nullptr);
  return {};
}

Status OutputFile::open_beside(const std::string& target) {
  constexpr int kMaxAttempts = 100;
  target_ = target;
  for (int i = 0; i < kMaxAttempts; ++i) {
    std::string name = format("{}.{}-{}.partial", target, getpid(), i);
    file_.reset(std::fopen(name.c_str(), "wbxe"));
    if (file_ != nullptr) {
      temporary_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return invalid_argument(format("cannot create {}: {}", path_, std::strerror(errno)));
}

Status OutputFile::write(std::span<const std::byte> data) {
  OCTAVO_CHECK(file_ != nullptr);
  if (data.empty()) return {};
  return std::fwrite(data.data(), 1, data.size(), file_.get()) == data.size() ? Status()
                                                                              : error("write");
}

Status OutputFile::commit() {
  OCTAVO_CHECK(file_ != nullptr);
  const bool failed_before = std::ferror(file_.get()) != 0;
  if (std::fclose(file_.release()) != 0) return error("write");
  if (failed_before) return internal_error(format("cannot write {}", path_));
  if (temporary_.empty()) return {};
  struct stat replaced {};
  if (stat(target_.c_str(), &replaced) == 0) chmod(temporary_.c_str(), replaced.st_mode & 07777);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return error("create");
  temporary_.clear();
  return {};
}

Status OutputFile::error(const char* action) const {
  return internal_error(format("cannot {} {}: {}", action, path_, std::strerror(errno)));
}

}  // namespace octavo::formats
