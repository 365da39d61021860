// What a mixture of experts needs beside dense ops. A router ranks the experts for each token; the
// rows are grouped by expert, so that each expert computes all of its rows in one product; the
// results are added in the order in which the router ranked them, so that a token's sum depends on
// nothing else in the batch. (Shazeer et al., 2017)
#pragma once

#include <cstdint>

#include "ops/mat.h"
#include "ops/weight.h"

namespace octavo::ops {

// How the logits of the chosen experts become weights.
enum class RouterScore : uint8_t {
  kSoftmax,        // softmax over all experts
  kSoftmaxOfTopK,  // softmax over the chosen ones: the same, made to sum to 1
  kSigmoid,        // each by itself
};

struct Routing {
  int64_t num_experts = 0;
  int64_t top_k = 0;  // <= num_experts
  RouterScore score = RouterScore::kSoftmaxOfTopK;
  bool weighs_input = false;  // the weight multiplies an expert's input, not its output
};

// Where the rows of a batch go. A slot is one row of one expert: num_tokens * top_k slots, those of
// expert e being offsets[e] .. offsets[e + 1] - 1, in the order of the tokens.
struct ExpertPlan {
  int32_t* offsets = nullptr;     // [num_experts + 1]
  int32_t* row_ids = nullptr;     // [num_slots]: the token
  float* slot_weights = nullptr;  // [num_slots]
  int32_t* slots = nullptr;       // [num_tokens, top_k]: of a token's choices, best first
};

// Fills the plan: the top_k largest logits of each row, of equals the first.
struct RouteArgs {
  ExpertPlan plan;
  Mat logits;  // [n, num_experts]
  Routing routing;
};

// out[slots of e, :] = x[slots of e, :] · experts[e]ᵀ. The default reads `offsets` on the host.
struct LinearExpertsArgs {
  Mat out;                           // [num_slots, experts[e].rows]
  Mat x;                             // [num_slots, experts[e].cols]
  const Weight* experts = nullptr;   // [num_experts], of one shape
  const int32_t* offsets = nullptr;  // [num_experts + 1]
  int64_t num_experts = 0;
  bool outliers = false;  // as in LinearArgs
};

// out[t, :] += sum over j of weight(t, j) * y[slots[t, j], :], in the order of j.
struct CombineExpertsArgs {
  Mat out;  // [n, d]
  Mat y;    // [n * top_k, d]
  ExpertPlan plan;
  int64_t top_k = 0;
  bool weighs = true;  // false: every weight counts as 1
};

}  // namespace octavo::ops
