// Percentiles as numpy and vLLM's benchmarks have them: between two neighbours where the share
// falls between two.
#pragma once

#include <algorithm>
#include <vector>

namespace octavo {

// The value below which `percent`, in 0..100, of `values` lie; 0 of none.
template <typename T>
double percentile(std::vector<T> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

}  // namespace octavo
