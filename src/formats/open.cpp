#include "formats/checkpoint.h"

namespace octavo::formats {

Result<std::shared_ptr<const Checkpoint>> open_checkpoint(const std::string& path) {
  return unsupported(path + ": no format is known yet");
}

}  // namespace octavo::formats
