#include "backends/cuda/kv_write.h"

#include "backends/cuda/tile/kv_write_launch.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

Status check_support(const KvWriteArgs& args) {
  if (args.kv_dtype != DType::kBF16 && args.kv_dtype != DType::kF8E4M3)
    return unsupported(format("write_kv: a cache of {}", dtype_traits(args.kv_dtype).name));
  if (args.head_dim < 16 || args.head_dim > kMaxKvHeadDim || args.head_dim % 16 != 0)
    return unsupported(format("write_kv: a head_dim of {}", args.head_dim));
  if (args.rotary_dim < 0 || args.rotary_dim > args.head_dim || args.rotary_dim % 16 != 0)
    return unsupported(format("write_kv: a rotary_dim of {} for a head_dim of {}", args.rotary_dim,
                              args.head_dim));
  if (args.block_size < 16 || args.block_size % 16 != 0)
    return unsupported(format("write_kv: a block_size of {}", args.block_size));
  if (args.num_blocks < 0 || args.num_blocks > INT32_MAX / args.block_size)
    return unsupported(format("write_kv: {} blocks of {}", args.num_blocks, args.block_size));
  if (args.num_heads < 0 || args.num_kv_heads < 1)
    return invalid_argument(
        format("write_kv: {} heads on {} of K and V", args.num_heads, args.num_kv_heads));
  if (args.q_stride % 8 != 0 || args.k_stride % 8 != 0 || args.v_stride % 8 != 0)
    return unsupported(format("write_kv: strides of {}, {}, {} are not multiples of 8",
                              args.q_stride, args.k_stride, args.v_stride));
  const bool scales = args.k_scale != nullptr && args.v_scale != nullptr;
  if (args.kv_dtype == DType::kF8E4M3 && args.scale_kind != KvScale::kTensor && !scales)
    return invalid_argument("write_kv: scales by head or token without k_scale and v_scale");
  return {};
}

}  // namespace

Status write_kv(const KvWriteArgs& args, cudaStream_t stream, bool overlap_previous) {
  OCTAVO_TRY(check_support(args));
  if (args.num_tokens <= 0) return {};
  KvWriteLaunch write = {args, FastDivisor(args.block_size), 0};
  while ((16 << write.lane_shift) < args.head_dim) ++write.lane_shift;
  launch_write_kv(write, stream, overlap_previous);
  return {};
}

}  // namespace octavo::backends::cuda
