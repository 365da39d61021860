// Tensor names: models ask by Hugging Face names, GGUF files have llama.cpp's.
#pragma once

#include <string>
#include <string_view>

#include "model/traits.h"

namespace octavo::model {

// E.g. "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight". What a layer's norms are
// called depends on where they stand.
std::string gguf_tensor_name(std::string_view hf_name, NormPlacement norms);

}  // namespace octavo::model
