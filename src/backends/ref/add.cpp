#include "backends/ref/ref.h"

namespace octavo::backends::ref {

void add(ops::ExecContext&, const ops::AddArgs& a) {
  for (int64_t t = 0; t < a.x.rows; ++t) {
    for (int64_t i = 0; i < a.x.cols; ++i) a.out.row<float>(t)[i] += a.x.row<float>(t)[i];
  }
}

}  // namespace octavo::backends::ref
