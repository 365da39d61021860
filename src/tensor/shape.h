// The extents of a tensor, outermost first (PyTorch's order; a GGUF file stores them reversed).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo {

using Shape = std::vector<int64_t>;

// e.g. "[49152, 576]"
std::string shape_string(const Shape& shape);

// The number of values; 1 for a scalar (empty shape).
int64_t shape_count(const Shape& shape);

}  // namespace octavo
