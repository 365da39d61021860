#include "backends/cuda/attention_prefill.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/attention_prefill_kernels.h"
#include "backends/cuda/hopper.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

Status check_shapes(const PrefillArgs& args) {
  if (args.head_dim != 64 && args.head_dim != 128 && args.head_dim != 256) {
    return unsupported(format("head_dim {}: attention has 64, 128 and 256", args.head_dim));
  }
  if (args.num_heads <= 0 || args.num_kv_heads <= 0 || args.num_heads % args.num_kv_heads != 0) {
    return invalid_argument(format("num_heads {} is not a multiple of num_kv_heads {}",
                                   args.num_heads, args.num_kv_heads));
  }
  if (args.num_tokens < 0 || args.num_seqs < 0) {
    return invalid_argument("num_tokens and num_seqs may not be negative");
  }
  if (args.num_tokens > 0 && args.num_seqs == 0) return invalid_argument("num_seqs is 0");
  if (args.kv_dtype != DType::kBF16 && args.kv_dtype != DType::kF8E4M3) {
    return unsupported(format("keys and values of {}", dtype_traits(args.kv_dtype).name));
  }
  if (!(args.scale > 0.0f)) return invalid_argument(format("scale {} is not above 0", args.scale));
  if (args.mask.chunk > 0 && args.mask.window_right != 0) {
    return unsupported("chunked attention without a causal mask");
  }
  if (args.block_table == nullptr) {
    if (args.cu_seqlens_k == nullptr) return invalid_argument("cu_seqlens_k is missing");
    return {};
  }
  const int size = args.block_size;
  if (size < 16 || size > 256 || !std::has_single_bit(static_cast<unsigned>(size))) {
    return unsupported(format("block_size {}: attention has 16, 32, 64, 128 and 256", size));
  }
  if (args.seq_lens == nullptr) return invalid_argument("seq_lens is missing");
  if (args.num_blocks <= 0 || args.num_blocks >= INT32_MAX) {
    return invalid_argument(format("num_blocks {} is out of range", args.num_blocks));
  }
  return {};
}

bool takes_portable(const PrefillArgs& args) {
  return args.portable || !is_hopper();
}

PrefillTiles tiles_of(const PrefillArgs& args) {
  return takes_portable(args) ? prefill_tiles_portable(args) : prefill_tiles_sm90(args);
}

// Query heads that share a tile, as a power of two: the largest that divides their number for each
// key/value head, at most 16.
int pack_log2(const PrefillArgs& args) {
  const auto group = static_cast<unsigned>(args.num_heads / args.num_kv_heads);
  return std::min(std::countr_zero(group), 4);
}

int64_t max_items(const PrefillArgs& args) {
  return max_work_items(args.num_tokens, args.num_seqs, tiles_of(args).rows >> pack_log2(args));
}

PrefillParams make_params(const PrefillArgs& args, WorkList* list) {
  constexpr float kLog2e = 1.4426950408889634f;
  const bool paged = args.block_table != nullptr;
  const bool fp8 = args.kv_dtype == DType::kF8E4M3;
  PrefillParams params = {};
  params.out = static_cast<__nv_bfloat16*>(args.out);
  params.lse = args.lse;
  params.list = list;
  params.sinks = args.sinks;
  params.block_table = args.block_table;
  params.block_table_stride = args.block_table_stride;
  params.num_tokens = args.num_tokens;
  params.num_heads = args.num_heads;
  params.num_kv_heads = args.num_kv_heads;
  params.num_blocks = static_cast<int>(args.num_blocks);
  params.block_size_log2 = paged ? std::countr_zero(static_cast<unsigned>(args.block_size)) : 0;
  params.pack_log2 = pack_log2(args);
  params.units = args.num_heads >> params.pack_log2;
  params.units_per_kv_head = params.units / args.num_kv_heads;
  params.softcap = args.softcap > 0.0f;
  params.score.log2 = (params.softcap ? args.softcap : args.scale) * kLog2e;
  params.score.max_growth = kMaxGrowthLog2 / params.score.log2;
  params.score.softcap = params.softcap ? args.scale / args.softcap : 0.0f;
  params.mask = args.mask;
  params.k_scale = fp8 ? args.k_scale : nullptr;
  params.v_scale = fp8 ? args.v_scale : nullptr;
  params.scale_stride = args.scale_stride;
  return params;
}

}  // namespace

Status prefill_status(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return internal_error(format("attention: {}", cudaGetErrorString(error)));
}

size_t prefill_workspace_bytes(const PrefillArgs& args) {
  return sizeof(WorkList) + static_cast<size_t>(max_items(args)) * sizeof(WorkItem);
}

Status plan_prefill(const PrefillArgs& args, void* workspace, cudaStream_t stream) {
  OCTAVO_TRY(check_shapes(args));
  if (args.num_tokens == 0) return {};
  const PrefillTiles tiles = tiles_of(args);
  WorkListArgs list;
  list.cu_seqlens_q = args.cu_seqlens_q;
  list.cu_seqlens_k = args.block_table == nullptr ? args.cu_seqlens_k : nullptr;
  list.seq_lens = args.seq_lens;
  list.num_seqs = args.num_seqs;
  list.max_items = static_cast<int>(max_items(args));
  list.tile_tokens = tiles.rows >> pack_log2(args);
  list.block_keys = tiles.block_keys;
  list.num_kv_heads = args.num_kv_heads;
  list.units_per_kv_head = args.num_heads / args.num_kv_heads >> pack_log2(args);
  list.kv_bytes = static_cast<int>(2 * dtype_bytes(args.kv_dtype, args.head_dim));
  list.mask = args.mask;
  return prefill_status(launch_work_list(static_cast<WorkList*>(workspace), list, stream));
}

Status prefill_attention(const PrefillArgs& args, void* workspace, cudaStream_t stream) {
  OCTAVO_TRY(check_shapes(args));
  if (args.num_tokens == 0) return {};
  const PrefillParams params = make_params(args, static_cast<WorkList*>(workspace));
  const int64_t most_tiles = max_items(args) * params.units;
  return takes_portable(args) ? launch_prefill_portable(args, params, most_tiles, stream)
                              : launch_prefill_sm90(args, params, most_tiles, stream);
}

}  // namespace octavo::backends::cuda
