#include <cstring>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void gather_rows(ops::ExecContext&, const ops::GatherRowsArgs& a) {
  for (int64_t i = 0; i < a.out.rows; ++i) {
    std::memcpy(a.out.row<float>(i), a.x.row<float>(a.row_ids[i]), a.out.cols * sizeof(float));
  }
}

}  // namespace octavo::backends::ref
