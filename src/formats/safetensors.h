// One .safetensors file: an 8-byte little-endian header length, a JSON header that gives each
// tensor's dtype, shape and place, and the tensors' bytes. Reading trusts nothing.
// (https://github.com/huggingface/safetensors: format)
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/checkpoint.h"
#include "octavo/status.h"

namespace octavo::formats {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset; offset_bytes counts from the start of the file
  JsonObject metadata;              // "__metadata__": strings only
};

// Reads the header of a file image; `path` names it in errors. Every tensor lies inside the image,
// none overlap, none of the bytes between them are left out, and every product was checked.
Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> bytes,
                                                  const std::string& path);

// What the header calls a type; "" where the format has none for it.
std::string_view safetensors_type_name(DType dtype);

// Whether the bytes look like such a file, for telling formats apart.
bool is_safetensors(std::span<const std::byte> bytes);

}  // namespace octavo::formats
