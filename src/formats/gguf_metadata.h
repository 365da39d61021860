// The metadata section of a GGUF file: keys and typed values, read into a JSON object.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "formats/gguf_reader.h"
#include "formats/gguf_types.h"
#include "octavo/status.h"

namespace octavo::formats {

// Key length, one byte of key, value type, one byte of value.
inline constexpr uint64_t kGgufMinKeyRecordBytes = 8 + 1 + 4 + 1;

struct GgufMetadata {
  Json values;                  // an object, in file order
  std::vector<GgufType> types;  // of each value, in the same order
  uint32_t alignment = kGgufDefaultAlignment;
};

// Reads `num_keys` records. On return every key is non-empty and occurs once.
Result<GgufMetadata> read_gguf_metadata(GgufReader& in, uint64_t num_keys);

}  // namespace octavo::formats
