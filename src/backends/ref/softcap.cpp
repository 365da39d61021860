#include <cmath>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void softcap(ops::ExecContext&, const ops::SoftcapArgs& a) {
  for (int64_t t = 0; t < a.x.rows; ++t) {
    for (int64_t i = 0; i < a.x.cols; ++i) {
      float& x = a.x.row<float>(t)[i];
      x = static_cast<float>(a.cap * std::tanh(static_cast<double>(x) / a.cap));
    }
  }
}

}  // namespace octavo::backends::ref
