// YAML files. That of --config: YAML whose keys are flags. Those of the model and its memory may
// also stand in a map `model_config`. The only wrapper of yaml-cpp.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"

namespace octavo::cli {

// A sequence gives a value for each of its entries, a map its JSON, null and an empty sequence
// none.
struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;
};

// In the order of the file. Errors name the file and, where there is one, the line.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);

// A file as JSON. Plain scalars that read as numbers, booleans or null are such.
Result<Json> read_yaml_file(const std::string& path);

}  // namespace octavo::cli
