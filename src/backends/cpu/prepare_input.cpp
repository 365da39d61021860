// The form in which a quantised weight wants its input: values in another order, rounded to E4M3.
#include <algorithm>

#include "backends/cpu/for_rows.h"
#include "backends/cpu/row_ops.h"
#include "tensor/float8.h"

namespace octavo::backends::cpu {
namespace {

void round_values(float* values, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) values[i] = round_to_e4m3(values[i] / scale) * scale;
}

// A maximum that begins at 0 and skips NaN; the NaN itself stays one when it is rounded.
float largest_magnitude(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(values[i]);
    largest = largest < magnitude ? magnitude : largest;
  }
  return largest;
}

void round_row(float* row, int64_t cols, const ops::InputForm& form) {
  switch (form.rounding) {
    case ops::InputRounding::kNone:
      return;
    case ops::InputRounding::kStaticE4M3:
      return round_values(row, cols, form.scale);
    case ops::InputRounding::kDynamicE4M3:
      for (int64_t begin = 0; begin < cols; begin += form.group) {
        const int64_t count = std::min(form.group, cols - begin);
        float scale = largest_magnitude(row + begin, count) / kE4M3Max;
        if (form.scale > 0) scale = std::min(scale, form.scale);
        round_values(row + begin, count, scale == 0 ? 1 : scale);
      }
  }
}

}  // namespace

void prepare_input(ops::ExecContext& ctx, const ops::PrepareInputArgs& a) {
  for_rows(ctx, a.out.rows, a.out.cols, [&](int64_t t) {
    float* out = a.out.row<float>(t);
    const float* x = a.x.row<float>(t);
    const int32_t* order = a.form.order;
    if (order == nullptr) {
      std::copy_n(x, a.out.cols, out);
    } else {
      for (int64_t i = 0; i < a.out.cols; ++i) out[i] = x[order[i]];
    }
    round_row(out, a.out.cols, a.form);
  });
}

}  // namespace octavo::backends::cpu
