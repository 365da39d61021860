// A Hugging Face folder as the GGUF file that llama.cpp's converter would make of it: names, keys,
// the order of q and k rows, norms plus one, experts in stacks. For tests of small checkpoints.
#pragma once

#include <string>

namespace octavo::testing {

// Writes `path`; ends the test process on failure.
void write_gguf_from_folder(const std::string& folder, const std::string& path);

}  // namespace octavo::testing
