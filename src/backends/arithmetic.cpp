#include "backends/backend.h"

namespace octavo::backends {

const char* arithmetic_name(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kAuto:
      return "auto";
    case Arithmetic::kFloat32:
      return "float32";
    case Arithmetic::kBFloat16:
      return "bfloat16";
    case Arithmetic::kInt8:
      return "int8";
  }
  return "?";
}

}  // namespace octavo::backends
