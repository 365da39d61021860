#include <cmath>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void silu_mul(ops::ExecContext&, const ops::SiluMulArgs& a) {
  for (int64_t t = 0; t < a.gate.rows; ++t) {
    for (int64_t i = 0; i < a.gate.cols; ++i) {
      const double z = a.gate.row<float>(t)[i];
      a.out.row<float>(t)[i] = static_cast<float>(z / (1 + std::exp(-z)) * a.up.row<float>(t)[i]);
    }
  }
}

}  // namespace octavo::backends::ref
