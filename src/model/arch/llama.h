// The Llama graph: pre-norm blocks of grouped-query attention with RoPE and a gated SiLU MLP.
// (Touvron et al., 2023; Grattafiori et al., 2024)
#pragma once

#include <memory>

#include "model/causal_lm.h"
#include "model/weights.h"

namespace octavo::model {

Result<std::unique_ptr<CausalLM>> build_llama(const ModelConfig& config, WeightLoader& loader,
                                              const Limits& limits);

}  // namespace octavo::model
