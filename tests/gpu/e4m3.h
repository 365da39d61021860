// The values of E4M3 codes, for tests: half precision with four bits of exponent and three of
// mantissa, no infinities, NaN where all seven lower bits are set.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/float16.h"

namespace octavo::backends::cuda {

inline double e4m3_to_double(uint8_t bits) {
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  // As the upper bits of a half it is 2^8 too small.
  const auto half = static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7F) << 7);
  return 256.0 * static_cast<double>(fp16_to_float(half));
}

}  // namespace octavo::backends::cuda
