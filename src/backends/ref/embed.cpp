#include "backends/ref/ref.h"
#include "ops/decode_row.h"

namespace octavo::backends::ref {

void embed(ops::ExecContext&, const ops::EmbedArgs& a) {
  const ops::DecodeRowFn decode = ops::decode_row_fn(a.table->dtype);
  for (int64_t t = 0; t < a.out.rows; ++t) {
    float* out = a.out.row<float>(t);
    decode(a.table->row(a.token_ids[t]), out, a.table->cols);
    ops::scale_values(*a.table, a.token_ids[t], 0, a.table->cols, out);
    for (int64_t i = 0; i < a.out.cols; ++i) out[i] *= a.scale;
  }
}

}  // namespace octavo::backends::ref
