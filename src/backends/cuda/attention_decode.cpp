#include "backends/cuda/attention_decode.h"

#include "backends/cuda/hopper.h"
#include "backends/cuda/tile/decode_plan.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

Status check_support(const DecodeArgs& args) {
  if (args.head_dim != 64 && args.head_dim != 128 && args.head_dim != 256)
    return unsupported(format("decode attention: a head of {} values", args.head_dim));
  if (args.kv_dtype != DType::kBF16 && args.kv_dtype != DType::kF8E4M3)
    return unsupported(format("decode attention: a cache of {}", dtype_traits(args.kv_dtype).name));
  if (args.num_kv_heads < 1 || args.num_heads % args.num_kv_heads != 0)
    return invalid_argument(
        format("decode attention: {} heads on {} of K and V", args.num_heads, args.num_kv_heads));
  if (args.block_size < 16 || args.block_size % 16 != 0)
    return unsupported(format("decode attention: blocks of {} tokens", args.block_size));
  if (args.window_right > 0)
    return unsupported(format("decode attention: {} keys after the query", args.window_right));
  if (args.max_q_len < 1 || !(args.scale > 0.0f))
    return invalid_argument(
        format("decode attention: {} query tokens, scale {}", args.max_q_len, args.scale));
  if (args.tree_mask != nullptr && args.max_q_len > 64)
    return unsupported(format("decode attention: a tree mask of {} query tokens", args.max_q_len));
  if (!args.token_scales) return {};
  if (args.kv_dtype != DType::kF8E4M3)
    return unsupported(format("decode attention: scales by token for a cache of {}",
                              dtype_traits(args.kv_dtype).name));
  if (args.k_scale == nullptr || args.v_scale == nullptr)
    return invalid_argument("decode attention: scales by token without k_scale and v_scale");
  return {};
}

}  // namespace

size_t decode_workspace_bytes(const DecodeArgs& args) {
  return decode_workspace(args, nullptr).bytes;
}

Status plan_decode(const DecodeArgs& args, void* workspace, cudaStream_t stream) {
  OCTAVO_TRY(check_support(args));
  launch_plan_decode(args, workspace, stream);
  return {};
}

Status decode_attention(const DecodeArgs& args, void* workspace, cudaStream_t stream,
                        const DecodeLaunch& launch) {
  OCTAVO_TRY(check_support(args));
  if (args.num_seqs == 0) return {};
  const int row_tiles = decode_row_tiles(args);
  const DecodeKernelArgs kernel_args = {args,
                                        decode_workspace(args, workspace),
                                        FastDivisor(row_tiles),
                                        FastDivisor(args.num_kv_heads * row_tiles),
                                        FastDivisor(args.num_heads / args.num_kv_heads),
                                        FastDivisor(args.block_size),
                                        launch.after_plan};
  const bool portable = launch.portable || !is_hopper();
  auto* run = portable ? launch_decode_portable_bf16 : launch_decode_sm90_bf16;
  if (args.token_scales) {
    run = portable ? launch_decode_portable_fp8_token_scales : launch_decode_sm90_fp8_token_scales;
  } else if (args.kv_dtype == DType::kF8E4M3) {
    run = portable ? launch_decode_portable_fp8 : launch_decode_sm90_fp8;
  }
  run(kernel_args, stream, launch.overlap_previous || launch.after_plan);
  return {};
}

}  // namespace octavo::backends::cuda
