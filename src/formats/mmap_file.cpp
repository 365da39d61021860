#include "formats/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/format.h"

namespace octavo::formats {

Result<std::shared_ptr<const MmapFile>> MmapFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return not_found(format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat info {};
  Status error;
  void* data = nullptr;
  size_t size = 0;
  if (fstat(fd, &info) != 0) {
    error = internal_error(format("cannot stat {}: {}", path, std::strerror(errno)));
  } else if (!S_ISREG(info.st_mode)) {
    error = invalid_argument(format("{} is not a regular file", path));
  } else if (info.st_size > 0) {
    size = static_cast<size_t>(info.st_size);
    data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      error = resource_exhausted(format("cannot map {}: {}", path, std::strerror(errno)));
    }
  }
  close(fd);
  if (!error.ok()) return error;
  return std::shared_ptr<const MmapFile>(
      new MmapFile(path, static_cast<const std::byte*>(data), size));
}

void MmapFile::give_back(std::span<const std::byte> part) const {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const auto file = reinterpret_cast<uintptr_t>(data_);
  if (begin < file || begin + part.size() > file + size_) return;
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t end = (begin + part.size()) / kPage * kPage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MmapFile::~MmapFile() {
  if (size_ > 0) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace octavo::formats
