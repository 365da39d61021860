// A model folder as on the Hugging Face hub: config.json beside model.safetensors, or beside
// model.safetensors.index.json and the files that it names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/mmap_file.h"

namespace octavo::formats {

// metadata() holds the folder's JSON files under their names without ".json": "config" (always),
// "generation_config", "tokenizer_config" (where they exist). Only the weight files that the index
// names are read; what they hold and what the index says must be the same.
class HfCheckpoint final : public Checkpoint {
 public:
  static Result<std::shared_ptr<const HfCheckpoint>> open(const std::string& folder);

  std::string_view format_name() const override { return "safetensors"; }
  const std::string& path() const override { return folder_; }
  int64_t file_bytes() const override { return file_bytes_; }
  const Json& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  Tensor tensor(const TensorInfo& info) const override;
  void give_back(std::span<const std::byte> part) const override;

 private:
  HfCheckpoint() = default;
  Status read_json_files();
  Status read_weights();
  Status add_file(const std::string& name);
  Status check_index(const Json& weight_map, const std::string& index_path) const;

  std::string folder_;
  Json metadata_;
  int64_t file_bytes_ = 0;
  std::vector<std::shared_ptr<const MmapFile>> files_;
  std::vector<std::string> file_names_;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> file_of_;  // [tensor]
  std::unordered_map<std::string, size_t> index_by_name_;
};

// The whole of a text file; the error names it.
Result<std::string> read_text_file(const std::string& path);

}  // namespace octavo::formats
