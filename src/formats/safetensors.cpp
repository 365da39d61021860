#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/format.h"

namespace octavo::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kLengthBytes = 8;

// The reference implementation's own limit; the header of a 400B model is about 1 MB.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr NamedType kNamedTypes[] = {
    {"F64", DType::kF64},   {"F32", DType::kF32},        {"F16", DType::kF16},
    {"BF16", DType::kBF16}, {"I64", DType::kI64},        {"I32", DType::kI32},
    {"I16", DType::kI16},   {"I8", DType::kI8},          {"U64", DType::kU64},
    {"U32", DType::kU32},   {"U16", DType::kU16},        {"U8", DType::kU8},
    {"BOOL", DType::kBool}, {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2},
};

uint64_t header_length(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

// One entry of the header, with the file's words for it in every error.
class EntryReader {
 public:
  EntryReader(const std::string& path, std::string_view name, const Json& entry)
      : where_(format("{}: tensor '{}'", path, name)), name_(name), entry_(entry) {}

  Result<TensorInfo> read(uint64_t data_begin, uint64_t data_bytes) const {
    if (!entry_.is_object()) return data_loss(format("{} is not described by an object", where_));
    TensorInfo info;
    info.name = name_;
    info.dtype = OCTAVO_TRY(read_dtype());
    info.shape = OCTAVO_TRY(read_shape());
    info.size_bytes = OCTAVO_TRY(expected_bytes(info));
    const JsonArray& offsets = *OCTAVO_TRY(json_array(entry_, "data_offsets", where_));
    if (offsets.size() != 2) return data_loss(format("{}: 'data_offsets' must hold two", where_));
    const uint64_t begin = OCTAVO_TRY(natural(offsets[0], "data_offsets"));
    const uint64_t end = OCTAVO_TRY(natural(offsets[1], "data_offsets"));
    if (begin > end || end > data_bytes) {
      return data_loss(format("{}: bytes {} to {} lie outside the {} bytes of data", where_, begin,
                              end, data_bytes));
    }
    if (end - begin != static_cast<uint64_t>(info.size_bytes)) {
      return data_loss(format("{}: {} of {} takes {} bytes, but 'data_offsets' span {}", where_,
                              shape_string(info.shape), dtype_traits(info.dtype).name,
                              info.size_bytes, end - begin));
    }
    info.offset_bytes = static_cast<int64_t>(data_begin + begin);
    return info;
  }

 private:
  Result<DType> read_dtype() const {
    const std::string name = OCTAVO_TRY(json_string(entry_, "dtype", where_));
    for (const NamedType& type : kNamedTypes) {
      if (type.name == name) return type.dtype;
    }
    return unsupported(format("{}: dtype '{}' is not known", where_, name));
  }

  Result<Shape> read_shape() const {
    const JsonArray& extents = *OCTAVO_TRY(json_array(entry_, "shape", where_));
    Shape shape;
    for (const Json& extent : extents) {
      shape.push_back(static_cast<int64_t>(OCTAVO_TRY(natural(extent, "shape"))));
    }
    return shape;
  }

  // A product may overflow before a zero makes it harmless: both are looked at.
  Result<int64_t> expected_bytes(const TensorInfo& info) const {
    int64_t bytes = dtype_traits(info.dtype).block_bytes;
    bool empty = false;
    for (const int64_t extent : info.shape) {
      empty |= extent == 0;
      if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes)) {
        return data_loss(format("{}: the size of {} overflows", where_, shape_string(info.shape)));
      }
    }
    return empty ? 0 : bytes;
  }

  Result<uint64_t> natural(const Json& value, const char* field) const {
    if (value.is_int64() && value.get_int64() >= 0) {
      return static_cast<uint64_t>(value.get_int64());
    }
    return data_loss(format("{}: '{}' must hold whole numbers below 2^63", where_, field));
  }

  std::string where_;
  std::string_view name_;
  const Json& entry_;
};

// The format allows neither holes nor overlaps: hidden bytes have been used to smuggle files.
Status check_layout(const std::vector<TensorInfo>& tensors, uint64_t data_begin,
                    uint64_t file_bytes, const std::string& path) {
  auto next = static_cast<int64_t>(data_begin);
  for (const TensorInfo& info : tensors) {
    if (info.offset_bytes != next) {
      return data_loss(format("{}: tensor '{}' starts at byte {} of the file instead of {}", path,
                              info.name, info.offset_bytes, next));
    }
    next += info.size_bytes;
  }
  if (static_cast<uint64_t>(next) != file_bytes) {
    return data_loss(format("{}: {} bytes after the last tensor belong to none", path,
                            file_bytes - static_cast<uint64_t>(next)));
  }
  return {};
}

Status read_metadata(const Json& value, const std::string& path, JsonObject& metadata) {
  if (!value.is_object()) return data_loss(format("{}: '__metadata__' must be an object", path));
  for (const auto& item : value.get_object()) {
    if (!item.value().is_string()) {
      return data_loss(format("{}: '__metadata__' must hold strings, '{}' is none", path,
                              std::string(item.key())));
    }
  }
  metadata = value.get_object();
  return {};
}

}  // namespace

std::string_view safetensors_type_name(DType dtype) {
  for (const NamedType& type : kNamedTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return "";
}

bool is_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes + 2) return false;
  const uint64_t length = header_length(bytes);
  return length >= 2 && length <= kMaxHeaderBytes && bytes[kLengthBytes] == std::byte{'{'};
}

Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> bytes,
                                                  const std::string& path) {
  if (bytes.size() < kLengthBytes) {
    return data_loss(
        format("{}: {} bytes are too few for a .safetensors file", path, bytes.size()));
  }
  const uint64_t length = header_length(bytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    return data_loss(
        format("{}: the header takes {} bytes, the file has {}", path, length, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const Json header = OCTAVO_TRY(parse_json(text, path));
  if (!header.is_object()) return data_loss(format("{}: the header must be an object", path));
  SafetensorsHeader result;
  const uint64_t data_begin = kLengthBytes + length;
  for (const auto& item : header.get_object()) {
    const std::string_view name(item.key().data(), item.key().size());
    if (name == "__metadata__") {
      OCTAVO_TRY(read_metadata(item.value(), path, result.metadata));
      continue;
    }
    const EntryReader entry(path, name, item.value());
    result.tensors.push_back(OCTAVO_TRY(entry.read(data_begin, bytes.size() - data_begin)));
  }
  std::sort(result.tensors.begin(), result.tensors.end(), [](const auto& a, const auto& b) {
    // Empty tensors share their offset with the next one.
    return a.offset_bytes != b.offset_bytes ? a.offset_bytes < b.offset_bytes
                                            : a.size_bytes < b.size_bytes;
  });
  OCTAVO_TRY(check_layout(result.tensors, data_begin, bytes.size(), path));
  return result;
}

}  // namespace octavo::formats
