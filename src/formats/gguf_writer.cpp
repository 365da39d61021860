#include "formats/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "formats/ggml_types.h"

namespace octavo::formats {
namespace {

constexpr size_t kMaxTensorNameBytes = 63;

template <typename T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_string(std::string& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out += text;
}

// Appends `value` as a T, or returns false where it is no number that a T can hold.
template <typename T>
bool append_json_number(std::string& out, const Json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return false;
    const auto number = value.to_number<double>();
    const auto narrow = static_cast<T>(number);
    if (std::isinf(narrow) && !std::isinf(number)) return false;
    append_number(out, narrow);
    return true;
  } else {
    if (value.is_int64() && std::in_range<T>(value.get_int64())) {
      append_number(out, static_cast<T>(value.get_int64()));
    } else if (value.is_uint64() && std::in_range<T>(value.get_uint64())) {
      append_number(out, static_cast<T>(value.get_uint64()));
    } else {
      return false;
    }
    return true;
  }
}

// Appends a value that is not an array; false where it does not fit `kind`.
bool append_scalar(std::string& out, GgufKind kind, const Json& value) {
  switch (kind) {
    case GgufKind::kString:
      if (!value.is_string()) return false;
      append_string(out, to_view(value.get_string()));
      return true;
    case GgufKind::kBool:
      if (!value.is_bool()) return false;
      append_number(out, static_cast<uint8_t>(value.get_bool()));
      return true;
    case GgufKind::kArray:
      return false;
    default:
      return gguf_visit_number(
          kind, [&](auto zero) { return append_json_number<decltype(zero)>(out, value); });
  }
}

bool append_value(std::string& out, GgufType type, const Json& value) {
  append_number(out, static_cast<uint32_t>(type.kind));
  if (type.kind != GgufKind::kArray) return append_scalar(out, type.kind, value);
  if (!value.is_array() || type.element == GgufKind::kArray) return false;
  const JsonArray& array = value.get_array();
  append_number(out, static_cast<uint32_t>(type.element));
  append_number(out, static_cast<uint64_t>(array.size()));
  return std::all_of(array.begin(), array.end(), [&](const Json& element) {
    return append_scalar(out, type.element, element);
  });
}

// The bytes of a tensor's data, or an error where GGUF cannot express it.
Result<uint64_t> data_bytes(std::string_view name, const GgmlType& type, const Shape& shape) {
  uint64_t count = 1;
  bool ok = !shape.empty() && shape.size() <= kGgufMaxDims;
  for (const int64_t extent : shape) {
    ok = ok && extent > 0 && !__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count);
  }
  uint64_t size = 0;
  if (!ok || count > INT64_MAX || shape.back() % type.block_size != 0 ||
      __builtin_mul_overflow(count / static_cast<uint64_t>(type.block_size),
                             static_cast<uint64_t>(type.block_bytes), &size)) {
    return invalid_argument(format("tensor '{}': {} cannot be stored with shape {}", name,
                                   type.name, shape_string(shape)));
  }
  return size;
}

}  // namespace

Status GgufWriter::add_metadata(std::string_view key, GgufType type, const Json& value) {
  OCTAVO_CHECK(!file_.is_open());
  if (key.empty() || key.size() > kGgufMaxKeyBytes) {
    return invalid_argument(format("a metadata key of {} bytes", key.size()));
  }
  std::string record;
  append_string(record, key);
  if (!append_value(record, type, value)) {
    return invalid_argument(
        format("metadata key '{}': the value does not fit {}", key, gguf_type_name(type)));
  }
  if (keys_.contains(std::string(key))) {
    return invalid_argument(format("metadata key '{}' is added twice", key));
  }
  if (key == kGgufAlignmentKey) {
    const bool is_u32 = type.kind == GgufKind::kU32;
    const auto alignment = is_u32 ? value.to_number<uint32_t>() : 0;
    if (!gguf_alignment_is_valid(alignment)) {
      return invalid_argument(format("metadata key '{}' must be a u32, a power of two from 8 to {}",
                                     key, kGgufMaxAlignment));
    }
    alignment_ = alignment;
  }
  keys_.emplace(key);
  metadata_ += record;
  return {};
}

Status GgufWriter::add_tensor(std::string_view name, DType dtype, const Shape& shape) {
  OCTAVO_CHECK(!file_.is_open());
  if (name.empty() || name.size() > kMaxTensorNameBytes) {
    return invalid_argument(format("tensor '{}': a name of {} bytes", name, name.size()));
  }
  const GgmlType* type = ggml_type_of(dtype);
  if (type == nullptr) {
    return unsupported(format("tensor '{}': GGUF has no type {}", name, dtype_traits(dtype).name));
  }
  const uint64_t size = OCTAVO_TRY(data_bytes(name, *type, shape));
  if (!tensor_names_.emplace(name).second) {
    return invalid_argument(format("tensor '{}' is added twice", name));
  }
  tensors_.push_back({std::string(name), type->id, shape, size});
  return {};
}

std::string GgufWriter::encode_header() const {
  std::string header(kGgufMagic);
  append_number(header, kGgufVersion);
  append_number(header, static_cast<uint64_t>(tensors_.size()));
  append_number(header, static_cast<uint64_t>(keys_.size()));
  header += metadata_;
  uint64_t offset = 0;
  for (const DeclaredTensor& tensor : tensors_) {
    append_string(header, tensor.name);
    append_number(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) append_number(header, tensor.shape[i]);
    append_number(header, tensor.type_id);
    append_number(header, offset);
    offset = gguf_align(offset + tensor.size_bytes, alignment_);
  }
  return header;
}

Status GgufWriter::open(const std::string& path) {
  OCTAVO_CHECK(!file_.is_open());
  path_ = path;
  OCTAVO_TRY(file_.open(path));
  const std::string header = encode_header();
  OCTAVO_TRY(append_to_file(std::as_bytes(std::span(header))));
  return pad_file();
}

Status GgufWriter::write(std::span<const std::byte> data) {
  OCTAVO_CHECK(file_.is_open());
  while (!data.empty()) {
    if (tensor_index_ == tensors_.size()) {
      return invalid_argument(
          format("{}: {} bytes more than the tensors declared", path_, data.size()));
    }
    const uint64_t wanted = tensors_[tensor_index_].size_bytes - tensor_bytes_;
    const auto piece = data.first(std::min<uint64_t>(wanted, data.size()));
    OCTAVO_TRY(append_to_file(piece));
    tensor_bytes_ += piece.size();
    data = data.subspan(piece.size());
    if (piece.size() < wanted) continue;
    OCTAVO_TRY(pad_file());
    ++tensor_index_;
    tensor_bytes_ = 0;
  }
  return {};
}

Status GgufWriter::close() {
  OCTAVO_CHECK(file_.is_open());
  if (tensor_index_ < tensors_.size()) {
    return invalid_argument(format("{}: tensor '{}': {} of {} bytes were written", path_,
                                   tensors_[tensor_index_].name, tensor_bytes_,
                                   tensors_[tensor_index_].size_bytes));
  }
  return file_.commit();
}

Status GgufWriter::append_to_file(std::span<const std::byte> data) {
  OCTAVO_TRY(file_.write(data));
  file_bytes_ += data.size();
  return {};
}

Status GgufWriter::pad_file() {
  const std::vector<std::byte> zeros(gguf_align(file_bytes_, alignment_) - file_bytes_);
  return append_to_file(zeros);
}

}  // namespace octavo::formats
