// Fuzzes the GGUF reader: parses the input as a file, then reads every byte that it gave to a
// tensor and every value and type of its metadata.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "formats/gguf.h"

namespace {

using namespace octavo;

void require(bool condition) {
  if (!condition) std::abort();
}

// The library's answers must fit together, whatever the file says.
uint64_t walk(const formats::GgufCheckpoint& checkpoint) {
  uint64_t sum = 0;
  for (const formats::TensorInfo& info : checkpoint.tensors()) {
    require(checkpoint.find(info.name) == &info);
    const Tensor tensor = checkpoint.tensor(info);
    require(tensor.size_bytes() == info.size_bytes && info.size_bytes > 0);
    for (int64_t i = 0; i < info.size_bytes; ++i) {
      sum += std::to_integer<uint64_t>(tensor.data[i]);
    }
  }
  require(checkpoint.metadata_types().size() == checkpoint.metadata().get_object().size());
  for (const formats::GgufType type : checkpoint.metadata_types()) {
    sum += formats::gguf_type_name(type).size();
  }
  return sum + dump_json(checkpoint.metadata()).size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto checkpoint = formats::GgufCheckpoint::parse(bytes, "fuzz", nullptr);
  if (checkpoint.ok()) {
    asm volatile("" : : "r"(walk(**checkpoint)));  // or the compiler would drop the reads
  } else {
    require(checkpoint.status().message().starts_with("fuzz: "));
  }
  return 0;
}
