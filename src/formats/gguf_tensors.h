// The tensor section of a GGUF file: names, types and shapes, and where in the file the data lies.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/gguf_reader.h"
#include "octavo/status.h"

namespace octavo::formats {

// Name length, one byte of name, number of dimensions, one dimension, type, offset.
inline constexpr uint64_t kGgufMinTensorRecordBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Reads `num_tensors` records and places them in the data section that follows. On return all names
// are non-empty and differ, and every tensor lies aligned inside the file and shares no byte with
// another; the data may come in any order and have gaps.
Result<std::vector<TensorInfo>> read_gguf_tensors(GgufReader& in, uint64_t num_tensors,
                                                  uint64_t alignment);

}  // namespace octavo::formats
