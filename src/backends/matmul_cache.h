// The fastest algorithm found for each matrix product, kept in a file from run to run. What a file
// says of another machine or version is not used, nor anything of a file that is not whole: then
// the products are measured again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::backends {

// What a measurement holds for.
struct MatmulMachine {
  std::string gpu;  // by name
  int driver = 0;
  int library = 0;  // version of cuBLASLt

  bool operator==(const MatmulMachine&) const = default;
};

struct MatmulAlgorithm {
  std::array<uint64_t, 8> code = {};  // as the library describes it
  double us = 0;                      // a run took, when it was chosen

  bool operator==(const MatmulAlgorithm&) const = default;
};

class MatmulCache {
 public:
  // Reads `path` where it is there; "" keeps nothing. What is not used is said in a log line.
  MatmulCache(std::string path, MatmulMachine machine);

  // Null where there is none. `key` names the product.
  const MatmulAlgorithm* find(std::string_view key) const;

  // Also writes the file anew, as a whole or not at all.
  Status put(const std::string& key, const MatmulAlgorithm& algorithm);

  size_t size() const { return algorithms_.size(); }

 private:
  Status read();
  Status write() const;

  std::string path_;
  MatmulMachine machine_;
  std::map<std::string, MatmulAlgorithm, std::less<>> algorithms_;
};

// Below `folder` (base/env.h: octavo_home), a file for each machine and version; "" for "".
std::string matmul_cache_path(const std::string& folder, const MatmulMachine& machine);

}  // namespace octavo::backends
