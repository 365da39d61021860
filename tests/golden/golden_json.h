// What every golden test reads from its golden.json.
#pragma once

#include <vector>

#include "base/json.h"
#include "octavo/tokenizer.h"

namespace octavo::testing {

inline std::vector<TokenId> ids_of(const Json& array) {
  std::vector<TokenId> ids;
  for (const Json& id : array.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

}  // namespace octavo::testing
