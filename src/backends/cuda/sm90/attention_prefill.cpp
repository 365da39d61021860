#include "backends/cuda/sm90/attention_prefill.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/sm90/attention_prefill_params.h"
#include "backends/cuda/sm90/attention_work.h"
#include "backends/cuda/tensor_map.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

// Calls visit.operator()<Config>() with the kernel that serves `args`: a function of head
// dimension, kind of cache and mask, never of lengths, so that a row's result depends on none.
template <typename Visit>
auto with_config(const PrefillArgs& args, const Visit& visit) {
  const bool softcap = args.softcap > 0.0f;
  const bool contiguous = args.block_table == nullptr;
  const bool full = args.mask.window_right < 0 && args.mask.window_left < 0;
  if (args.head_dim == 64) {
    return softcap ? visit.template operator()<PrefillHd64<true>>()
                   : visit.template operator()<PrefillHd64<false>>();
  }
  if (args.head_dim == 128) {
    if (softcap) return visit.template operator()<PrefillHd128<true>>();
    return contiguous && full ? visit.template operator()<PrefillHd128Full>()
                              : visit.template operator()<PrefillHd128<false>>();
  }
  if (softcap) return visit.template operator()<PrefillHd256<true>>();
  return contiguous ? visit.template operator()<PrefillHd256Contiguous>()
                    : visit.template operator()<PrefillHd256<false>>();
}

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

// Query heads that share a tile, as a power of two: the largest that divides their number for each
// key/value head, at most 16.
int pack_log2(const PrefillArgs& args) {
  const auto group = static_cast<unsigned>(args.num_heads / args.num_kv_heads);
  return std::min(std::countr_zero(group), 4);
}

int64_t max_items(const PrefillArgs& args) {
  return with_config(args, [&]<typename Config>() {
    return max_work_items(args.num_tokens, args.num_seqs, Config::kBlockM >> pack_log2(args));
  });
}

template <typename Config>
Result<PrefillMaps> make_maps(const PrefillArgs& args, int box_rows) {
  constexpr auto kHeadDim = static_cast<uint64_t>(Config::kHeadDim);
  constexpr uint64_t kRowBytes = kHeadDim * 2;
  const auto pack = uint64_t{1} << pack_log2(args);
  const auto num_heads = static_cast<uint64_t>(args.num_heads);
  TensorMapShape q;
  q.data = args.q;
  q.sizes = {kHeadDim, pack, num_heads / pack, static_cast<uint64_t>(args.num_tokens)};
  q.strides_bytes = {kRowBytes, pack * kRowBytes, num_heads * kRowBytes};
  q.box = {kPanelColumns, static_cast<uint32_t>(pack), 1,
           static_cast<uint32_t>(Config::kBlockM / pack)};

  TensorMapShape kv;
  const auto kv_heads = static_cast<uint64_t>(args.num_kv_heads);
  if (args.block_table == nullptr) {  // one block of all tokens, heads innermost but one
    const auto tokens = static_cast<uint64_t>(std::max<int64_t>(args.num_kv_tokens, 1));
    kv.sizes = {kHeadDim, tokens, kv_heads, 1};
    kv.strides_bytes = {kv_heads * kRowBytes, kRowBytes, tokens * kv_heads * kRowBytes};
  } else {
    const auto slots = static_cast<uint64_t>(args.block_size);
    kv.sizes = {kHeadDim, slots, kv_heads, static_cast<uint64_t>(args.num_blocks)};
    kv.strides_bytes = {kRowBytes, slots * kRowBytes, kv_heads * slots * kRowBytes};
  }
  kv.box = {kPanelColumns, static_cast<uint32_t>(box_rows), 1, 1};
  PrefillMaps maps;
  maps.q = OCTAVO_TRY(make_tensor_map(q));
  kv.data = args.k;
  maps.k = OCTAVO_TRY(make_tensor_map(kv));
  kv.data = args.v;
  maps.v = OCTAVO_TRY(make_tensor_map(kv));
  return maps;
}

template <typename Config>
PrefillParams make_params(const PrefillArgs& args, WorkList* list) {
  constexpr float kLog2e = 1.4426950408889634f;
  const bool paged = args.block_table != nullptr;
  PrefillParams params = {};
  params.out = static_cast<__nv_bfloat16*>(args.out);
  params.lse = args.lse;
  params.list = list;
  params.sinks = args.sinks;
  params.block_table = args.block_table;
  params.block_table_stride = args.block_table_stride;
  params.num_tokens = args.num_tokens;
  params.num_heads = args.num_heads;
  params.num_blocks = static_cast<int>(args.num_blocks);
  params.block_size_log2 = paged ? std::countr_zero(static_cast<unsigned>(args.block_size)) : 0;
  params.box_rows = paged ? std::min(args.block_size, Config::kBlockN) : Config::kBlockN;
  params.row_mask = paged ? args.block_size - 1 : -1;
  params.pack_log2 = pack_log2(args);
  params.units = args.num_heads >> params.pack_log2;
  params.units_per_kv_head = params.units / args.num_kv_heads;
  params.scale_log2 = (args.softcap > 0.0f ? args.softcap : args.scale) * kLog2e;
  constexpr float kMaxGrowthLog2 = 8.0f;  // weights of up to 256 are as exact as those below 1
  params.max_growth = kMaxGrowthLog2 / params.scale_log2;
  params.softcap_scale = args.softcap > 0.0f ? args.scale / args.softcap : 0.0f;
  params.mask = args.mask;
  return params;
}

Status cuda_status(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return internal_error(format("attention: {}", cudaGetErrorString(error)));
}

}  // namespace

size_t prefill_workspace_bytes(const PrefillArgs& args) {
  return sizeof(WorkList) + static_cast<size_t>(max_items(args)) * sizeof(WorkItem);
}

Status plan_prefill(const PrefillArgs& args, void* workspace, cudaStream_t stream) {
  OCTAVO_TRY(check_shapes(args));
  if (args.num_tokens == 0) return {};
  WorkListArgs list;
  list.cu_seqlens_q = args.cu_seqlens_q;
  list.cu_seqlens_k = args.block_table == nullptr ? args.cu_seqlens_k : nullptr;
  list.seq_lens = args.seq_lens;
  list.num_seqs = args.num_seqs;
  list.max_items = static_cast<int>(max_items(args));
  list.num_kv_heads = args.num_kv_heads;
  list.units_per_kv_head = args.num_heads / args.num_kv_heads >> pack_log2(args);
  list.kv_bytes = 2 * args.head_dim * 2;
  list.mask = args.mask;
  with_config(args, [&]<typename Config>() {
    list.tile_tokens = Config::kBlockM >> pack_log2(args);
    list.block_keys = Config::kBlockN;
  });
  return cuda_status(launch_work_list(static_cast<WorkList*>(workspace), list, stream));
}

Status prefill_attention(const PrefillArgs& args, void* workspace, cudaStream_t stream) {
  OCTAVO_TRY(check_shapes(args));
  if (args.num_tokens == 0) return {};
  int device = 0;
  int num_sms = 0;
  OCTAVO_TRY(cuda_status(cudaGetDevice(&device)));
  OCTAVO_TRY(cuda_status(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device)));
  return with_config(args, [&]<typename Config>() -> Status {
    const auto params = make_params<Config>(args, static_cast<WorkList*>(workspace));
    const auto maps = OCTAVO_TRY(make_maps<Config>(args, params.box_rows));
    const int64_t most_tiles = max_items(args) * params.units;
    const auto num_blocks = static_cast<int>(std::min<int64_t>(num_sms, most_tiles));
    return cuda_status(launch_prefill<Config>(params, maps, num_blocks, stream));
  });
}

}  // namespace octavo::backends::cuda
