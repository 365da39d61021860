#include "tensor/shape.h"

#include "base/format.h"

namespace octavo {

std::string shape_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

int64_t shape_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace octavo
