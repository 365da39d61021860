#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void gather_rows(ops::ExecContext&, const ops::GatherRowsArgs& a) {
  for (int64_t i = 0; i < a.out.rows; ++i) {
    const float* x = a.x.row<float>(a.row_ids[i]);
    const float scale = a.scales == nullptr ? 1 : a.scales[i];
    for (int64_t j = 0; j < a.out.cols; ++j) a.out.row<float>(i)[j] = scale * x[j];
  }
}

}  // namespace octavo::backends::ref
