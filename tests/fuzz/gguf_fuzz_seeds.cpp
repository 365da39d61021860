// Writes what fuzzing the GGUF reader starts from: small files that between them hold every type of
// metadata value and of tensor. Usage: gguf_fuzz_seeds FOLDER
#include <cstdio>

#include "base/check.h"
#include "formats/ggml_types.h"
#include "formats/gguf_writer.h"

namespace octavo::formats {
namespace {

Status write_metadata_seed(const std::string& path) {
  GgufWriter writer;
  OCTAVO_TRY(writer.add_metadata("general.alignment", {GgufKind::kU32}, 64));
  for (uint32_t i = 0; i < kNumGgufKinds; ++i) {
    const auto kind = static_cast<GgufKind>(i);
    if (kind == GgufKind::kArray) continue;
    const Json value = kind == GgufKind::kString ? Json("text")
                       : kind == GgufKind::kBool ? Json(true)
                                                 : Json(1);
    const std::string name(gguf_kind_name(kind));
    OCTAVO_TRY(writer.add_metadata(name, {kind}, value));
    OCTAVO_TRY(
        writer.add_metadata(name + ".array", {GgufKind::kArray, kind}, JsonArray{value, value}));
  }
  OCTAVO_TRY(writer.open(path));
  return writer.close();
}

Status write_tensor_seed(const std::string& path) {
  GgufWriter writer;
  std::vector<std::byte> data;
  for (const GgmlType& type : ggml_types()) {
    if (!type.dtype) continue;
    OCTAVO_TRY(writer.add_tensor(type.name, *type.dtype, {2, type.block_size}));
    data.resize(data.size() + size_t{2} * static_cast<size_t>(type.block_bytes));
  }
  OCTAVO_TRY(writer.open(path));
  OCTAVO_TRY(writer.write(data));
  return writer.close();
}

Status write_seeds(const std::string& folder) {
  OCTAVO_TRY(write_metadata_seed(folder + "/metadata.gguf"));
  return write_tensor_seed(folder + "/tensors.gguf");
}

}  // namespace
}  // namespace octavo::formats

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_fuzz_seeds FOLDER\n");
    return 2;
  }
  const octavo::Status status = octavo::formats::write_seeds(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "gguf_fuzz_seeds: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
