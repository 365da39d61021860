#include <vector>

#include "backends/ref/ref.h"
#include "ops/decode_row.h"

namespace octavo::backends::ref {

void linear(ops::ExecContext&, const ops::LinearArgs& a) {
  const ops::DecodeRowFn decode = ops::decode_row_fn(a.w->dtype);
  std::vector<float> w(a.w->cols);
  for (int64_t n = 0; n < a.w->rows; ++n) {
    decode(a.w->row(n), w.data(), a.w->cols);
    ops::scale_values(*a.w, n, 0, a.w->cols, w.data());
    for (int64_t t = 0; t < a.x.rows; ++t) {
      const float* x = a.x.row<float>(t);
      double sum = a.bias == nullptr ? 0 : a.bias[n];
      for (int64_t k = 0; k < a.w->cols; ++k) sum += static_cast<double>(x[k]) * w[k];
      a.out.row<float>(t)[n] = static_cast<float>(sum);
    }
  }
}

}  // namespace octavo::backends::ref
