// Arrival traces: who asks when, for how much. Read from the formats in which they are published:
// Azure's CSV (TIMESTAMP,ContextTokens,GeneratedTokens) and Mooncake's lines of JSON (timestamp,
// input_length, output_length, hash_ids).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::cli {

struct TraceRequest {
  double arrival_s = 0;  // since the first request
  int64_t input_length = 0;
  int64_t output_length = 0;
  std::vector<int64_t> hash_ids;  // of blocks of 512 tokens; equal ids are equal blocks
};

// The first `limit` requests, ordered by arrival; 0: all.
Result<std::vector<TraceRequest>> read_trace(const std::string& path, int64_t limit);

// A prompt as the trace describes it: the tokens of its blocks, or ones that nobody else has. Any
// number from 0 to 2^31 - 1 can be a token.
std::vector<TokenId> make_prompt(const TraceRequest& request, int64_t index);

}  // namespace octavo::cli
