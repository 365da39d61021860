#include "formats/safetensors_writer.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"

namespace octavo::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

Result<std::string_view> dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "F64";
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kI16:
      return "I16";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    default:
      return unsupported(format("safetensors has no type {}", dtype_traits(dtype).name));
  }
}

Result<std::string> make_header(std::span<const Tensor> tensors) {
  JsonObject header;
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    JsonArray shape;
    for (const int64_t extent : tensor.shape) shape.emplace_back(extent);
    const std::string_view dtype = OCTAVO_TRY(dtype_name(tensor.dtype));
    const int64_t end = offset + tensor.size_bytes();
    const bool added = header
                           .emplace(tensor.name, JsonObject{{"dtype", dtype},
                                                            {"shape", std::move(shape)},
                                                            {"data_offsets", {offset, end}}})
                           .second;
    if (!added) return invalid_argument(format("tensor '{}' is given twice", tensor.name));
    offset = end;
  }
  std::string text = dump_json(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // data starts aligned
  return text;
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const Tensor> tensors) {
  const std::string header = OCTAVO_TRY(make_header(tensors));
  std::error_code error;
  // A link keeps pointing to the file; what is no regular file (a pipe, a device) is written to.
  const bool exists = std::filesystem::exists(path, error);
  const std::string target = exists ? std::filesystem::canonical(path, error).string() : path;
  const bool in_place = exists && !std::filesystem::is_regular_file(target, error);
  const std::string written = in_place ? target : format("{}.{}.partial", target, getpid());
  const auto failed = [&](const char* what) {
    const int code = errno;
    if (!in_place) std::remove(written.c_str());
    return internal_error(format("cannot {} {}: {}", what, path, std::strerror(code)));
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(written.c_str(), in_place ? "wb" : "wbx"), std::fclose);
  if (file == nullptr) {
    return internal_error(format("cannot create {}: {}", path, std::strerror(errno)));
  }
  const uint64_t header_bytes = header.size();
  bool complete = std::fwrite(&header_bytes, sizeof(header_bytes), 1, file.get()) == 1 &&
                  std::fwrite(header.data(), 1, header.size(), file.get()) == header.size();
  for (const Tensor& tensor : tensors) {
    const auto bytes = static_cast<size_t>(tensor.size_bytes());
    complete = complete && std::fwrite(tensor.data, 1, bytes, file.get()) == bytes;
  }
  if (!complete || std::fclose(file.release()) != 0) return failed("write");
  if (!in_place && std::rename(written.c_str(), target.c_str()) != 0) return failed("rename to");
  return {};
}

}  // namespace octavo::formats
