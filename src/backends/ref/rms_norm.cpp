#include <cmath>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void rms_norm(ops::ExecContext&, const ops::RmsNormArgs& a) {
  for (int64_t t = 0; t < a.x.rows; ++t) {
    const float* x = a.x.row<float>(t);
    float* out = a.out.row<float>(t);
    double squares = 0;
    for (int64_t i = 0; i < a.x.cols; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(a.x.cols) + a.eps);
    for (int64_t i = 0; i < a.x.cols; ++i) out[i] = static_cast<float>(x[i] * scale * a.weight[i]);
  }
}

}  // namespace octavo::backends::ref
