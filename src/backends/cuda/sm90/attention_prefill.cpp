// Hopper's prefill kernels: which one serves a call, and the tensor maps that it reads by.
#include <algorithm>

#include "backends/cuda/attention_prefill_kernels.h"
#include "backends/cuda/sm90/attention_prefill_params.h"
#include "backends/cuda/tensor_map.h"
#include "base/check.h"

namespace octavo::backends::cuda {
namespace {

template <template <bool> typename Config, typename Visit>
auto with_softcap(bool softcap, const Visit& visit) {
  return softcap ? visit.template operator()<Config<true>>()
                 : visit.template operator()<Config<false>>();
}

// Prompts so short on the average that tiles of 192 queries waste more than they gain.
bool is_short(const PrefillArgs& args) {
  return args.num_tokens <= int64_t{1024} * args.num_seqs;
}

// Calls visit.operator()<Config>() with the kernel that serves `args`: what a row's result depends
// on, the keys of a block, is a function of head dimension, kind of cache and mask, never of
// lengths.
template <typename Visit>
auto with_config(const PrefillArgs& args, const Visit& visit) {
  const bool softcap = args.softcap > 0.0f;
  if (args.kv_dtype == DType::kF8E4M3) {
    if (args.head_dim == 64) return with_softcap<PrefillHd64Fp8>(softcap, visit);
    if (args.head_dim == 128) return with_softcap<PrefillHd128Fp8>(softcap, visit);
    return with_softcap<PrefillHd256Fp8>(softcap, visit);
  }
  const bool contiguous = args.block_table == nullptr;
  const bool full = args.mask.window_right < 0 && args.mask.window_left < 0;
  if (args.head_dim == 64) {
    return !softcap && is_short(args) ? visit.template operator()<PrefillHd64Short>()
                                      : with_softcap<PrefillHd64>(softcap, visit);
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

template <typename Config>
Result<PrefillMaps> make_maps(const PrefillArgs& args, const TmaPrefillParams& params) {
  constexpr auto kHeadDim = static_cast<uint64_t>(Config::kHeadDim);
  constexpr uint64_t kRowBytes = kHeadDim * 2;
  const auto pack = uint64_t{1} << params.pack_log2;
  const auto num_heads = static_cast<uint64_t>(args.num_heads);
  TensorMapShape q;
  q.data = args.q;
  q.sizes = {kHeadDim, pack, num_heads / pack, static_cast<uint64_t>(args.num_tokens)};
  q.strides_bytes = {kRowBytes, pack * kRowBytes, num_heads * kRowBytes};
  q.box = {kPanelColumns, static_cast<uint32_t>(pack), 1,
           static_cast<uint32_t>(Config::kBlockM / pack)};

  TensorMapShape kv;
  constexpr uint64_t kKvRowBytes = Config::kFp8 ? kHeadDim : kRowBytes;
  kv.bytes = Config::kFp8;
  const auto kv_heads = static_cast<uint64_t>(args.num_kv_heads);
  if (args.block_table == nullptr) {  // one block of all tokens, heads innermost but one
    const auto tokens = static_cast<uint64_t>(std::max<int64_t>(args.num_kv_tokens, 1));
    kv.sizes = {kHeadDim, tokens, kv_heads, 1};
    kv.strides_bytes = {kv_heads * kKvRowBytes, kKvRowBytes, tokens * kv_heads * kKvRowBytes};
  } else {
    const auto slots = static_cast<uint64_t>(args.block_size);
    kv.sizes = {kHeadDim, slots, kv_heads, static_cast<uint64_t>(args.num_blocks)};
    kv.strides_bytes = {kKvRowBytes, slots * kKvRowBytes, kv_heads * slots * kKvRowBytes};
  }
  kv.box = {Config::kFp8 ? Config::kHeadDim : kPanelColumns, static_cast<uint32_t>(params.box_rows),
            1, 1};
  PrefillMaps maps;
  maps.q = OCTAVO_TRY(make_tensor_map(q));
  kv.data = args.k;
  maps.k = OCTAVO_TRY(make_tensor_map(kv));
  kv.data = args.v;
  maps.v = OCTAVO_TRY(make_tensor_map(kv));
  return maps;
}

}  // namespace

PrefillTiles prefill_tiles_sm90(const PrefillArgs& args) {
  return with_config(args, []<typename Config>() {
    return PrefillTiles{Config::kBlockM, Config::kBlockN};
  });
}

Status launch_prefill_sm90(const PrefillArgs& args, const PrefillParams& params, int64_t most_tiles,
                           cudaStream_t stream) {
  int device = 0;
  int num_sms = 0;
  OCTAVO_TRY(prefill_status(cudaGetDevice(&device)));
  OCTAVO_TRY(
      prefill_status(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device)));
  const bool paged = args.block_table != nullptr;
  return with_config(args, [&]<typename Config>() -> Status {
    const int box_rows = paged ? std::min(args.block_size, Config::kBlockN) : Config::kBlockN;
    const TmaPrefillParams tma = {params, box_rows, paged ? args.block_size - 1 : -1};
    const auto maps = OCTAVO_TRY(make_maps<Config>(args, tma));
    const auto num_blocks = static_cast<int>(std::min<int64_t>(num_sms, most_tiles));
    return prefill_status(launch_prefill<Config>(tma, maps, num_blocks, stream));
  });
}

}  // namespace octavo::backends::cuda
