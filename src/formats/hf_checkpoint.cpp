#include "formats/hf_checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

namespace octavo::formats {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kSingleFile = "model.safetensors";

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// An index is content from elsewhere: it may name files of its own folder only.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// The name of a file with weights in PyTorch's own form, "" where there is none.
std::string pickled_weights(const std::string& folder) {
  std::error_code error;
  std::string first;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    const std::string name = entry->path().filename().string();
    const bool is_pickle = extension == ".bin" || extension == ".pth" || extension == ".pt";
    if (is_pickle && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const auto file = OCTAVO_TRY(MmapFile::open(path));
  const auto bytes = file->bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::shared_ptr<const HfCheckpoint>> HfCheckpoint::open(const std::string& folder) {
  std::shared_ptr<HfCheckpoint> checkpoint(new HfCheckpoint());
  checkpoint->folder_ = folder;
  while (checkpoint->folder_.size() > 1 && checkpoint->folder_.back() == '/') {
    checkpoint->folder_.pop_back();
  }
  OCTAVO_TRY(checkpoint->read_json_files());
  OCTAVO_TRY(checkpoint->read_weights());
  return std::shared_ptr<const HfCheckpoint>(std::move(checkpoint));
}

Status HfCheckpoint::read_json_files() {
  JsonObject all;
  for (const char* name : {"config", "generation_config", "tokenizer_config"}) {
    const std::string path = format("{}/{}.json", folder_, name);
    const bool required = std::string_view(name) == "config";
    if (!required && !exists(path)) continue;
    const std::string text = OCTAVO_TRY(read_text_file(path));
    Json parsed = OCTAVO_TRY(parse_json(text, path));
    if (!parsed.is_object()) return data_loss(format("{}: must hold an object", path));
    all.emplace(name, std::move(parsed));
  }
  metadata_ = std::move(all);
  return {};
}

Status HfCheckpoint::read_weights() {
  const std::string index_path = format("{}/{}", folder_, kIndexFile);
  const bool sharded = exists(index_path);
  if (!sharded) {
    if (!exists(format("{}/{}", folder_, kSingleFile))) {
      const std::string pickle = pickled_weights(folder_);
      if (pickle.empty()) {
        return not_found(
            format("{}: neither {} nor {} is there", folder_, kSingleFile, kIndexFile));
      }
      return unsupported(format(
          "{}: the weights are in '{}', a Python pickle, which can run code and is not read; save "
          "the model as safetensors (in Python: save_pretrained) or take a GGUF file of it",
          folder_, printable(pickle)));
    }
    return add_file(kSingleFile);
  }
  const std::string text = OCTAVO_TRY(read_text_file(index_path));
  const Json index = OCTAVO_TRY(parse_json(text, index_path));
  const Json* weight_map = json_find(index, "weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) {
    return data_loss(format("{}: 'weight_map' must be an object", index_path));
  }
  for (const auto& item : weight_map->get_object()) {
    const std::string name = OCTAVO_TRY(json_string(
        *weight_map, std::string_view(item.key().data(), item.key().size()), index_path));
    if (!is_plain_file_name(name)) {
      return data_loss(format("{}: '{}' is no name of a file in this folder", index_path, name));
    }
    if (std::find(file_names_.begin(), file_names_.end(), name) == file_names_.end()) {
      OCTAVO_TRY(add_file(name));
    }
  }
  return check_index(*weight_map, index_path);
}

Status HfCheckpoint::add_file(const std::string& name) {
  const std::string path = format("{}/{}", folder_, name);
  auto file = OCTAVO_TRY(MmapFile::open(path));
  SafetensorsHeader header = OCTAVO_TRY(read_safetensors_header(file->bytes(), path));
  for (TensorInfo& info : header.tensors) {
    if (!index_by_name_.emplace(info.name, tensors_.size()).second) {
      return data_loss(format("{}: tensor '{}' is in another file too", path, info.name));
    }
    tensors_.push_back(std::move(info));
    file_of_.push_back(files_.size());
  }
  file_bytes_ += static_cast<int64_t>(file->bytes().size());
  files_.push_back(std::move(file));
  file_names_.push_back(name);
  return {};
}

Status HfCheckpoint::check_index(const Json& weight_map, const std::string& index_path) const {
  for (const auto& item : weight_map.get_object()) {
    const std::string name(item.key());
    const std::string_view file = to_view(item.value().get_string());
    const auto found = index_by_name_.find(name);
    if (found == index_by_name_.end() || file_names_[file_of_[found->second]] != file) {
      return data_loss(format("{}: tensor '{}' is not in {}", index_path, name, file));
    }
  }
  for (const TensorInfo& info : tensors_) {
    if (weight_map.get_object().contains(info.name)) continue;
    return data_loss(
        format("{}: tensor '{}' is in a file, but not in the index", index_path, info.name));
  }
  return {};
}

const TensorInfo* HfCheckpoint::find(std::string_view name) const {
  const auto found = index_by_name_.find(std::string(name));
  return found == index_by_name_.end() ? nullptr : &tensors_[found->second];
}

Tensor HfCheckpoint::tensor(const TensorInfo& info) const {
  const auto index = static_cast<size_t>(&info - tensors_.data());
  OCTAVO_CHECK(index < tensors_.size());
  const auto& file = files_[file_of_[index]];
  return {info.name, info.dtype, info.shape, file->bytes().data() + info.offset_bytes, file};
}

void HfCheckpoint::give_back(std::span<const std::byte> part) const {
  for (const auto& file : files_) file->give_back(part);
}

}  // namespace octavo::formats
