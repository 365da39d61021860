// GgufWriter: writes GGUF version 3 files of the strictest form: tensors in order, each at the next
// multiple of the alignment. Metadata and tensors are declared first; then the file is opened and
// the tensors' bytes stream through, so that a model never has to be in memory as a whole.
//
//   GgufWriter writer;
//   OCTAVO_TRY(writer.add_metadata("general.architecture", {GgufKind::kString}, "llama"));
//   OCTAVO_TRY(writer.add_tensor("output_norm.weight", DType::kF32, {576}));
//   OCTAVO_TRY(writer.open(path));
//   OCTAVO_TRY(writer.write(bytes));  // of all tensors in order, in pieces of any size
//   OCTAVO_TRY(writer.close());
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "formats/gguf_types.h"
#include "formats/output_file.h"
#include "octavo/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace octavo::formats {

class GgufWriter {
 public:
  // `value` must fit the type: integers in range, an array of such elements. The alignment is what
  // "general.alignment" is set to.
  Status add_metadata(std::string_view key, GgufType type, const Json& value);

  // Names are unique and shorter than 64 bytes, which other readers insist on. `shape` is outermost
  // first.
  Status add_tensor(std::string_view name, DType dtype, const Shape& shape);

  // Writes everything before the data, to a file that takes its name when it is closed (as an
  // OutputFile). Nothing may be added afterwards.
  Status open(const std::string& path);

  // The next bytes of the tensors' data. Padding between tensors is the writer's business.
  Status write(std::span<const std::byte> data);

  // Errors unless every tensor's bytes have been written.
  Status close();

 private:
  struct DeclaredTensor {
    std::string name;
    uint32_t type_id;
    Shape shape;
    uint64_t size_bytes;
  };

  std::string encode_header() const;
  Status append_to_file(std::span<const std::byte> data);
  Status pad_file();

  uint64_t alignment_ = kGgufDefaultAlignment;
  std::string metadata_;  // encoded
  std::unordered_set<std::string> keys_;
  std::vector<DeclaredTensor> tensors_;
  std::unordered_set<std::string> tensor_names_;

  std::string path_;
  OutputFile file_;
  uint64_t file_bytes_ = 0;
  size_t tensor_index_ = 0;    // the tensor being written
  uint64_t tensor_bytes_ = 0;  // how much of it has been
};

}  // namespace octavo::formats
