// Models that are split into several GGUF files, NAME-00001-of-00003.gguf and so on: given one of
// them, all are opened.
#pragma once

#include <memory>
#include <string>

#include "formats/gguf.h"
#include "octavo/status.h"

namespace octavo::formats {

// The whole model that `file`, read from `path`, belongs to: `file` itself where it is not split.
// The other parts are looked for beside it by their names. Errors name the part that is missing or
// that contradicts the others.
Result<std::shared_ptr<const GgufCheckpoint>> join_gguf_parts(
    const std::string& path, std::shared_ptr<const GgufCheckpoint> file);

}  // namespace octavo::formats
