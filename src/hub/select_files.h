// Which files of a repository make a model. Pure: names in, names out; used alike for what the hub
// has and for what is in the cache.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::hub {

using FileNames = std::span<const std::string>;

// Whether a model is a folder with safetensors, not a GGUF file.
bool has_safetensors(FileNames names);

inline constexpr const char* kWeightIndexFile = "model.safetensors.index.json";

// Of a folder: all but the weights that a model may need: JSON, chat templates, vocabularies.
std::vector<std::string> select_description(FileNames names);

// Of a folder: the files with weights. `index_json`: the content of kWeightIndexFile, "" where the
// folder has none. A file that is missing from `names` is an error.
Result<std::vector<std::string>> select_weights(FileNames names, std::string_view index_json,
                                                const std::string& repo);

// The GGUF file that `wanted` means, all parts of it where it is split, the first one first.
// `wanted` is a file's name, with or without its folder, or a quantisation in any case. "" takes
// Q4_K_M, else Q8_0, else the first by name.
Result<std::vector<std::string>> select_gguf(FileNames names, std::string_view wanted,
                                             const std::string& repo);

}  // namespace octavo::hub
