// The two families of prefill kernels, behind attention_prefill.h: sm90/attention_prefill.cpp and
// attention_prefill_portable.cpp. A family says how it cuts tiles, and launches by a list of them.
#pragma once

#include "backends/cuda/attention_prefill.h"
#include "backends/cuda/attention_work.h"
#include "backends/cuda/tile/prefill_params.h"

namespace octavo::backends::cuda {

struct PrefillTiles {
  int rows;        // of queries, each of one head
  int block_keys;  // of a block of keys
};

// Of checked arguments. `block_keys` is the same whatever the lengths, so that a row's result is.
PrefillTiles prefill_tiles_sm90(const PrefillArgs& args);
PrefillTiles prefill_tiles_portable(const PrefillArgs& args);

// `most_tiles`: what the list may hold, times units of heads.
Status launch_prefill_sm90(const PrefillArgs& args, const PrefillParams& params, int64_t most_tiles,
                           cudaStream_t stream);
Status launch_prefill_portable(const PrefillArgs& args, const PrefillParams& params,
                               int64_t most_tiles, cudaStream_t stream);

Status prefill_status(cudaError_t error);

}  // namespace octavo::backends::cuda
