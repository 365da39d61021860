#include "backends/pack_row_major.h"
#include "backends/ref/ref.h"
#include "ops/decode_row.h"

namespace octavo::backends::ref {

ops::Ops make_ops() {
  ops::Ops ops;
  ops.embed = embed;
  ops.rms_norm = rms_norm;
  for (int i = 0; i < kNumDTypes; ++i) {
    if (ops::decode_row_fn(static_cast<DType>(i)) != nullptr) ops.linear_by_dtype[i] = linear;
  }
  ops.prepare_input = prepare_input;
  ops.rope = rope;
  ops.write_kv = write_kv;
  ops.attention = attention;
  ops.scale_queries = scale_queries;
  ops.activation_mul = activation_mul;
  ops.softcap = softcap;
  ops.add = add;
  ops.gather_rows = gather_rows;
  ops.route = route;
  ops.combine_experts = combine_experts;
  ops.draw_tokens = draw_tokens;
  ops.pack_weight = pack_row_major;
  ops.workspace_bytes = [](int64_t, int64_t, int) -> int64_t { return 0; };
  ops::set_default_composites(ops);
  return ops;
}

}  // namespace octavo::backends::ref
