// Names: what a user calls a model of the hub, and what the hub calls its files. Both come from
// outside and become parts of paths and URLs, so their form is checked here, once.
#pragma once

#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::hub {

struct ModelName {
  std::string repo;  // "org/name"
  std::string file;  // what follows a colon: a quantisation, a file, or ""

  bool operator==(const ModelName&) const = default;
};

// "org/name", "org/name:Q4_K_M" or "org/name:file.gguf".
Result<ModelName> parse_model_name(std::string_view text);

// Whether a user who wrote `text` means a model of the hub: it has the form of a name, and its end
// is not that of a file.
bool looks_like_model_name(std::string_view text);

// "org/name" as the hub allows it.
bool is_repo_name(std::string_view text);

// Whether `path` is relative and stays in the folder that it is relative to.
bool is_safe_path(std::string_view path);

// 40 hexadecimal digits: a revision that never changes.
bool is_commit_id(std::string_view text);

// Percent-encoded for a URL.
std::string url_escape(std::string_view text, bool keep_slashes);

}  // namespace octavo::hub
