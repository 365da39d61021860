// A file mapped read-only; pages are read when they are touched and dropped under memory pressure.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "octavo/status.h"

namespace octavo::formats {

class MmapFile {
 public:
  // Errors name the path. An empty file gives an empty span; a directory is an error.
  static Result<std::shared_ptr<const MmapFile>> open(const std::string& path);
  ~MmapFile();
  MmapFile(const MmapFile&) = delete;
  MmapFile& operator=(const MmapFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Lets go of the memory of whole pages within `part`, if that is a part of the file; they are
  // read again when they are touched.
  void give_back(std::span<const std::byte> part) const;

 private:
  MmapFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace octavo::formats
