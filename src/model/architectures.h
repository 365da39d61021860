// The table of architectures: by which names checkpoints call them, and what builds them.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "model/causal_lm.h"
#include "model/config.h"
#include "model/weights.h"

namespace octavo::model {

struct Architecture {
  std::string_view gguf_name;  // general.architecture
  std::string_view hf_name;    // config.json "architectures"
  bool gguf_permutes_qk;       // llama.cpp's converter reordered q and k rows for adjacent pairs
  Result<std::unique_ptr<CausalLM>> (*build)(const ModelConfig&, WeightLoader&, const Limits&);
};

std::span<const Architecture> architectures();
const Architecture* find_gguf_architecture(std::string_view name);
const Architecture* find_hf_architecture(std::string_view name);

}  // namespace octavo::model
