// Products of few tokens on Hopper (sm90/few_tokens_streamed.cu): matrices stream through shared
// memory at the speed of memory, tensor cores multiply. few_tokens.h chooses.
#pragma once

#include "backends/cuda/few_tokens.h"

namespace octavo::backends::cuda {

// The most rows of x. More are few_tokens_wgmma.h's and, of E4M3 matrices, cuBLASLt's.
inline constexpr int64_t kStreamedTokens = 16;
// Of matrices of 4-bit codes, which are read once for every 16 rows. All of them are multiplied by
// the kernel of 9 to 16, whatever is left for the last.
inline constexpr int64_t kStreamedInt4Tokens = 64;

// Whether the current device can and the call lets it, and the matrices and x lie so that 16 bytes
// of a row can be read at a time.
bool streams_few_tokens(const FewTokensArgs& args);

// Whether that is so of E4M3 matrices with an x that is not rounded yet.
bool rounds_itself(const FewTokensArgs& args);

// Whether the current device streams E4M3 matrices of rows of this length, for 8 tokens at least.
bool streams_e4m3(int64_t in_features);

// The same of 4-bit codes (tile/int4_tiles.h), for 16 tokens.
bool streams_int4(int64_t in_features, int group);

void multiply_few_tokens_streamed(const FewTokensArgs& args, cudaStream_t stream);

}  // namespace octavo::backends::cuda
