// Products of 17 to 64 tokens on Hopper (sm90/few_tokens_wgmma.cu): matrices and input stream
// through shared memory, warpgroups multiply (wgmma). few_tokens.h chooses.
#pragma once

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/tile/wgmma_plan.h"

namespace octavo::backends::cuda {

// The most rows of x.
inline constexpr int64_t kWgmmaTokens = 64;

// Whether the current device can, the call lets it, and the matrices and x lie so that TMA can read
// them.
bool multiplies_by_wgmma(const FewTokensArgs& args);

// How the product is cut on the current device.
WgmmaPlan plan_wgmma(const FewTokensArgs& args);

void multiply_few_tokens_wgmma(const FewTokensArgs& args, const WgmmaPlan& plan,
                               cudaStream_t stream);

}  // namespace octavo::backends::cuda
