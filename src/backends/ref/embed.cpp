#include "backends/ref/ref.h"
#include "ops/decode_row.h"

namespace octavo::backends::ref {

void embed(ops::ExecContext&, const ops::EmbedArgs& a) {
  const ops::DecodeRowFn decode = ops::decode_row_fn(a.table->dtype);
  for (int64_t t = 0; t < a.out.rows; ++t) {
    decode(a.table->row(a.token_ids[t]), a.out.row<float>(t), a.table->cols);
  }
}

}  // namespace octavo::backends::ref
