// Tensor names: models ask by Hugging Face names, files may use others.
#pragma once

#include <string>
#include <string_view>

namespace octavo::model {

// The name under which a checkpoint of `format` stores the tensor that Hugging Face calls
// `hf_name`, e.g. "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight" for "gguf".
std::string file_tensor_name(std::string_view format, std::string_view hf_name);

}  // namespace octavo::model
