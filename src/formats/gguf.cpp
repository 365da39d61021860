#include "formats/gguf.h"

#include "base/check.h"
#include "base/format.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_reader.h"
#include "formats/gguf_tensors.h"

namespace octavo::formats {
namespace {

Result<uint32_t> read_version(GgufReader& in) {
  const auto magic = OCTAVO_TRY(in.take("the magic", kGgufMagic.size()));
  if (std::memcmp(magic.data(), kGgufMagic.data(), kGgufMagic.size()) != 0) {
    return in.error(StatusCode::kDataLoss, "this is no GGUF file: it does not begin with GGUF");
  }
  const auto version = OCTAVO_TRY(in.number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xFFFF) == 0) {
    return in.error(StatusCode::kUnsupported,
                    "the file is big-endian; octavo reads little-endian GGUF files");
  }
  if (version == 1) {
    return in.error(StatusCode::kUnsupported,
                    "GGUF version 1 is obsolete; convert the model again");
  }
  return in.error(version > kGgufVersion ? StatusCode::kUnsupported : StatusCode::kDataLoss,
                  format("GGUF version {} is not known; octavo reads 2 and 3", version));
}

// A count from the header, if so many records of at least `min_record_bytes` fit into the rest.
Result<uint64_t> read_count(GgufReader& in, std::string_view what, uint64_t min_record_bytes) {
  const auto count = OCTAVO_TRY(in.number<uint64_t>(what));
  if (count > in.remaining() / min_record_bytes) {
    return in.error(StatusCode::kDataLoss, format("{}, {}, do not fit into the {} bytes left", what,
                                                  count, in.remaining()));
  }
  return count;
}

}  // namespace

Result<std::shared_ptr<const GgufCheckpoint>> GgufCheckpoint::parse(
    std::span<const std::byte> bytes, std::string path, std::shared_ptr<const void> owner) {
  return parse(File{bytes, std::move(owner), nullptr}, std::move(path));
}

Result<std::shared_ptr<const GgufCheckpoint>> GgufCheckpoint::parse(
    std::shared_ptr<const MmapFile> file) {
  return parse(File{file->bytes(), file, file}, file->path());
}

Result<std::shared_ptr<const GgufCheckpoint>> GgufCheckpoint::parse(File file, std::string path) {
  const std::shared_ptr<GgufCheckpoint> checkpoint(new GgufCheckpoint());
  checkpoint->path_ = std::move(path);
  checkpoint->files_.push_back(std::move(file));
  OCTAVO_TRY(checkpoint->read());
  return std::shared_ptr<const GgufCheckpoint>(checkpoint);
}

Result<std::shared_ptr<const GgufCheckpoint>> GgufCheckpoint::join(
    std::span<const std::shared_ptr<const GgufCheckpoint>> parts, std::string path) {
  OCTAVO_CHECK(!parts.empty());
  const std::shared_ptr<GgufCheckpoint> whole(new GgufCheckpoint());
  whole->path_ = std::move(path);
  whole->version_ = parts[0]->version_;
  whole->alignment_ = parts[0]->alignment_;
  whole->metadata_ = parts[0]->metadata_;
  whole->metadata_types_ = parts[0]->metadata_types_;
  size_t num_tensors = 0;
  for (const auto& part : parts) num_tensors += part->tensors_.size();
  whole->tensors_.reserve(num_tensors);  // its names must stay where they are
  for (size_t i = 0; i < parts.size(); ++i) {
    whole->files_.push_back(parts[i]->files_.at(0));
    for (const TensorInfo& info : parts[i]->tensors_) {
      whole->tensors_.push_back(info);
      whole->file_of_.push_back(i);
      const auto [entry, added] =
          whole->index_by_name_.emplace(whole->tensors_.back().name, whole->tensors_.size() - 1);
      if (added) continue;
      return data_loss(format("{}: tensor {} is in {} too", parts[i]->path_, quoted_name(info.name),
                              parts[whole->file_of_[entry->second]]->path_));
    }
  }
  return std::shared_ptr<const GgufCheckpoint>(whole);
}

Status GgufCheckpoint::read() {
  GgufReader in(path_, files_[0].bytes);
  version_ = OCTAVO_TRY(read_version(in));
  const auto num_tensors = OCTAVO_TRY(read_count(in, "the tensors", kGgufMinTensorRecordBytes));
  const auto num_keys = OCTAVO_TRY(read_count(in, "the metadata keys", kGgufMinKeyRecordBytes));
  GgufMetadata metadata = OCTAVO_TRY(read_gguf_metadata(in, num_keys));
  alignment_ = metadata.alignment;
  metadata_ = std::move(metadata.values);
  metadata_types_ = std::move(metadata.types);
  tensors_ = OCTAVO_TRY(read_gguf_tensors(in, num_tensors, alignment_));
  file_of_.assign(tensors_.size(), 0);
  index_by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) index_by_name_.emplace(tensors_[i].name, i);
  return {};
}

int64_t GgufCheckpoint::file_bytes() const {
  size_t bytes = 0;
  for (const File& file : files_) bytes += file.bytes.size();
  return static_cast<int64_t>(bytes);
}

const TensorInfo* GgufCheckpoint::find(std::string_view name) const {
  const auto entry = index_by_name_.find(name);
  return entry == index_by_name_.end() ? nullptr : &tensors_[entry->second];
}

Tensor GgufCheckpoint::tensor(const TensorInfo& info) const {
  const auto index = static_cast<size_t>(&info - tensors_.data());
  OCTAVO_CHECK(index < tensors_.size());
  const File& file = files_[file_of_[index]];
  return {info.name, info.dtype, info.shape, file.bytes.data() + info.offset_bytes, file.owner};
}

void GgufCheckpoint::give_back(std::span<const std::byte> part) const {
  for (const File& file : files_) {
    if (file.mapped != nullptr) file.mapped->give_back(part);
  }
}

}  // namespace octavo::formats
