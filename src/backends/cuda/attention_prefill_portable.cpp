// Which of the portable prefill kernels serves a call.
#include <cstdint>

#include "backends/cuda/attention_prefill_kernels.h"
#include "backends/cuda/tile/prefill_launch.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

template <template <bool> typename Shape, typename Visit>
auto with_dtype(const PrefillArgs& args, const Visit& visit) {
  return args.kv_dtype == DType::kF8E4M3 ? visit.template operator()<Shape<true>>()
                                         : visit.template operator()<Shape<false>>();
}

// Calls visit.operator()<Shape>() with the kernel that serves `args`.
template <typename Visit>
auto with_shape(const PrefillArgs& args, const Visit& visit) {
  if (args.head_dim == 64) return with_dtype<PortableHd64>(args, visit);
  if (args.head_dim == 128) return with_dtype<PortableHd128>(args, visit);
  return with_dtype<PortableHd256>(args, visit);
}

}  // namespace

PrefillTiles prefill_tiles_portable(const PrefillArgs& args) {
  return with_shape(args, []<typename Shape>() {
    return PrefillTiles{Shape::kBlockM, Shape::kBlockN};
  });
}

Status launch_prefill_portable(const PrefillArgs& args, const PrefillParams& params,
                               int64_t most_tiles, cudaStream_t stream) {
  if (most_tiles > INT32_MAX) {  // the blocks of a grid
    return unsupported(format("attention: {} tiles in one call", most_tiles));
  }
  const PortableInputs inputs = {static_cast<const __nv_bfloat16*>(args.q),
                                 static_cast<const uint8_t*>(args.k),
                                 static_cast<const uint8_t*>(args.v)};
  return with_shape(args, [&]<typename Shape>() {
    return prefill_status(
        launch_portable_prefill<Shape>(params, inputs, static_cast<unsigned>(most_tiles), stream));
  });
}

}  // namespace octavo::backends::cuda
