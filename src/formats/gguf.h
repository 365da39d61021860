// GGUF files, versions 2 and 3, little-endian: llama.cpp's container for a whole model. Reading
// trusts nothing: a file that breaks any rule of the container is an error, never a crash or a huge
// allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/gguf_types.h"
#include "formats/mmap_file.h"

namespace octavo::formats {

class GgufCheckpoint final : public Checkpoint {
 public:
  // Reads a file image; `path` names it in errors and `owner` keeps `bytes` valid. The image need
  // not be a file, which is how the fuzzer gets in.
  static Result<std::shared_ptr<const GgufCheckpoint>> parse(std::span<const std::byte> bytes,
                                                             std::string path,
                                                             std::shared_ptr<const void> owner);

  // Reads a mapped file.
  static Result<std::shared_ptr<const GgufCheckpoint>> parse(std::shared_ptr<const MmapFile> file);

  // The parts of a model that is split into several files, in order, as one: the first part's
  // metadata and all tensors. `path` names the whole. Errors where a tensor is in two parts.
  static Result<std::shared_ptr<const GgufCheckpoint>> join(
      std::span<const std::shared_ptr<const GgufCheckpoint>> parts, std::string path);

  GgufCheckpoint(const GgufCheckpoint&) = delete;
  GgufCheckpoint& operator=(const GgufCheckpoint&) = delete;

  std::string_view format_name() const override { return "gguf"; }
  const std::string& path() const override { return path_; }
  int64_t file_bytes() const override;
  const Json& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  Tensor tensor(const TensorInfo& info) const override;
  void give_back(std::span<const std::byte> part) const override;

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }

  // The types that the file gives its metadata values, in the order of metadata().
  std::span<const GgufType> metadata_types() const { return metadata_types_; }

 private:
  struct File {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const MmapFile> mapped;  // null where the image is no file
  };

  GgufCheckpoint() = default;
  static Result<std::shared_ptr<const GgufCheckpoint>> parse(File file, std::string path);
  Status read();

  std::string path_;
  std::vector<File> files_;
  uint32_t version_ = 0;
  uint32_t alignment_ = kGgufDefaultAlignment;
  Json metadata_;
  std::vector<GgufType> metadata_types_;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> file_of_;                                 // [tensor]
  std::unordered_map<std::string_view, size_t> index_by_name_;  // views of tensors_
};

}  // namespace octavo::formats
