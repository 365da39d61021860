// Random blocks of every quantised type of GGUF.
#pragma once

#include <cstddef>

#include "base/rng.h"
#include "tensor/dtype.h"

namespace octavo::testing {

// Roughly normal, mean 0, variance 1.
inline float random_normal(Rng& rng) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += rng.next_double();
  return static_cast<float>(sum - 6);
}

// Fills one block at `dst` with values of about `magnitude`, every code of the type among them.
void fill_random_block(Rng& rng, DType dtype, float magnitude, std::byte* dst);

}  // namespace octavo::testing
