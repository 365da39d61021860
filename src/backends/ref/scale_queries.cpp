#include <cmath>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void scale_queries(ops::ExecContext&, const ops::ScaleQueriesArgs& a) {
  for (int64_t t = 0; t < a.x.rows; ++t) {
    const double steps = std::floor((a.positions[t] + 1.0) / a.floor_scale);
    const double scale = 1 + a.attn_scale * std::log(1 + steps);
    for (int64_t i = 0; i < a.x.cols; ++i) {
      a.x.row<float>(t)[i] = static_cast<float>(a.x.row<float>(t)[i] * scale);
    }
  }
}

}  // namespace octavo::backends::ref
