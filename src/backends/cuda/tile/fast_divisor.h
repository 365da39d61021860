// Division by a number that is known before the kernel starts: a multiplication and a shift, where
// the hardware has no division. Plain C++, so that tests on a CPU can run the same lines.
#pragma once

#include <cstdint>

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

class FastDivisor {
 public:
  FastDivisor() = default;
  // divisor: 1 .. 2^31 - 1
  OCTAVO_HOST_DEVICE constexpr explicit FastDivisor(int divisor) : divisor_(divisor) {
    while ((int64_t{1} << shift_) < divisor) ++shift_;
    const uint64_t power = uint64_t{1} << shift_;
    const auto d = static_cast<uint64_t>(divisor);
    multiplier_ = static_cast<uint32_t>(((power - d) << 32) / d + 1);
  }

  // n: 0 .. 2^31 - 1
  OCTAVO_HOST_DEVICE constexpr int divide(int n) const {
    const auto high = static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(n)} * multiplier_ >> 32);
    return static_cast<int>((high + static_cast<uint32_t>(n)) >> shift_);
  }
  OCTAVO_HOST_DEVICE constexpr int remainder(int n) const { return n - divide(n) * divisor_; }
  OCTAVO_HOST_DEVICE constexpr int divisor() const { return divisor_; }

 private:
  int divisor_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
};

}  // namespace octavo::backends::cuda
