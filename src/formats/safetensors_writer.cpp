#include "formats/safetensors_writer.h"

#include <bit>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "formats/output_file.h"
#include "formats/safetensors.h"

namespace octavo::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

Result<std::string> make_header(std::span<const Tensor> tensors) {
  JsonObject header;
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    JsonArray shape;
    for (const int64_t extent : tensor.shape) shape.emplace_back(extent);
    const std::string_view dtype = safetensors_type_name(tensor.dtype);
    if (dtype.empty()) {
      return unsupported(format("tensor '{}': safetensors has no type {}", tensor.name,
                                dtype_traits(tensor.dtype).name));
    }
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
  const uint64_t header_bytes = header.size();
  OutputFile file;
  OCTAVO_TRY(file.open(path));
  OCTAVO_TRY(file.write(std::as_bytes(std::span(&header_bytes, 1))));
  OCTAVO_TRY(file.write(std::as_bytes(std::span(header))));
  for (const Tensor& tensor : tensors) {
    OCTAVO_TRY(file.write({tensor.data, static_cast<size_t>(tensor.size_bytes())}));
  }
  return file.commit();
}

}  // namespace octavo::formats
