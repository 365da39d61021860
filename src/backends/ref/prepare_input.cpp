#include <algorithm>
#include <cmath>

#include "backends/ref/ref.h"
#include "tensor/float8.h"

namespace octavo::backends::ref {

void prepare_input(ops::ExecContext&, const ops::PrepareInputArgs& a) {
  const ops::InputForm& form = a.form;
  for (int64_t t = 0; t < a.out.rows; ++t) {
    float* out = a.out.row<float>(t);
    const float* x = a.x.row<float>(t);
    for (int64_t i = 0; i < a.out.cols; ++i) {
      out[i] = form.order == nullptr ? x[i] : x[form.order[i]];
    }
    if (form.rounding == ops::InputRounding::kNone) continue;
    const bool is_static = form.rounding == ops::InputRounding::kStaticE4M3;
    const int64_t group = is_static ? a.out.cols : form.group;
    for (int64_t begin = 0; begin < a.out.cols; begin += group) {
      const int64_t end = std::min(begin + group, a.out.cols);
      float scale = form.scale;
      if (!is_static) {
        float largest = 0;
        for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(out[i]));
        scale = largest / kE4M3Max;
        if (form.scale > 0) scale = std::min(scale, form.scale);
        if (scale == 0) scale = 1;
      }
      for (int64_t i = begin; i < end; ++i) {
        out[i] = e4m3_to_float(float_to_e4m3(out[i] / scale)) * scale;
      }
    }
  }
}

}  // namespace octavo::backends::ref
