// Token ids that count, for tests in which any prompt does.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::testing {

// first, first + 1, …
inline std::vector<TokenId> counting(int64_t n, TokenId first = 0) {
  std::vector<TokenId> ids(n);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

}  // namespace octavo::testing
