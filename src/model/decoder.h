// The decoder of every architecture in the table: embedding, layers of an attention and an MLP
// block, norm and head. What differs is in ModelConfig and its Traits. (Vaswani et al., 2017;
// Touvron et al., 2023)
#pragma once

#include <memory>

#include "model/causal_lm.h"
#include "model/weights.h"

namespace octavo::model {

Result<std::unique_ptr<CausalLM>> build_decoder(const ModelConfig& config, WeightLoader& loader,
                                                const Limits& limits);

}  // namespace octavo::model
