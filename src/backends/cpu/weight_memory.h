// Memory for packed weights, cut from large pieces so that the system can back it with huge pages:
// they are read from one end to the other for every token, and each page costs a look-up.
#pragma once

#include <memory>
#include <string_view>

#include "tensor/device.h"

namespace octavo::backends::cpu {

// Zeroed memory, aligned to a cache line. A piece lives as long as any buffer in it. `state` is
// PackContext::memory: where the next buffer goes.
Result<Buffer> allocate_weights(std::shared_ptr<void>& state, int64_t size_bytes,
                                std::string_view what);

}  // namespace octavo::backends::cpu
