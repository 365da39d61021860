// The file of `octavo serve --config`: YAML whose keys are flags. The only wrapper of yaml-cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "octavo/status.h"

namespace octavo::cli {

// Keys and values in the order of the file. A sequence gives a value for each of its entries, a map
// its JSON, null and an empty sequence none.
using ConfigEntries = std::vector<std::pair<std::string, std::vector<std::string>>>;

// Errors name the file and, where there is one, the line.
Result<ConfigEntries> read_config_file(const std::string& path);

}  // namespace octavo::cli
