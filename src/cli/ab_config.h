// The groups of --ab-config.
#pragma once

#include <string>

#include "octavo/status.h"
#include "server/groups.h"

namespace octavo::cli {

// `value`: a YAML file, or the same as JSON, which is what a map in --config becomes. "": no
// groups.
Result<server::GroupsConfig> read_ab_config(const std::string& value);

bool is_ab_config_file(const std::string& value);

}  // namespace octavo::cli
