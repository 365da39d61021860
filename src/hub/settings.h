// Where the hub is, who asks and where files are kept: read from the environment variables of
// Hugging Face's own library (docs/env.md), so that both share one cache.
#pragma once

#include <string>

#include "octavo/status.h"

namespace octavo::hub {

struct HubSettings {
  std::string endpoint;      // "https://…", without a slash at its end
  std::string token;         // "": anonymous
  std::string cache_folder;  // what HF_HUB_CACHE names
  bool offline = false;
  int timeout_s = 10;  // without a byte: the connection counts as broken
};

// Errors name the variable at fault.
Result<HubSettings> hub_settings();

}  // namespace octavo::hub
