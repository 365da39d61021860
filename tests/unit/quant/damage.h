// What tests of malformed checkpoints do to a tensor of a MemorySource.
#pragma once

#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "unit/quant/memory_source.h"

namespace octavo::testing {

using Damage = std::function<void(MemorySource&)>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Damage lacks(const char* name) {
  return [=](MemorySource& source) { ASSERT_EQ(source.entries().erase(name), 1u); };
}
inline Damage shaped(const char* name, const Shape& shape) {
  return [=](MemorySource& source) { source.entries().at(name).info.shape = shape; };
}
inline Damage typed(const char* name, DType dtype) {
  return [=](MemorySource& source) { source.entries().at(name).info.dtype = dtype; };
}
template <typename T>
Damage holding(const char* name, size_t at, T value) {
  return [=](MemorySource& source) {
    std::memcpy(source.entries().at(name).bytes.data() + at * sizeof(T), &value, sizeof(T));
  };
}

// The call failed with a message that holds `says`.
template <typename T>
void expect_error(const Result<T>& result, const char* says) {
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find(says), std::string::npos) << result.status().message();
}

}  // namespace octavo::testing
