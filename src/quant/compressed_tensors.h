// compressed-tensors: FP8 and packed integers, by groups of modules. A row of the table of schemes.
#pragma once

#include <memory>
#include <string>

#include "quant/scheme.h"

namespace octavo::quant {

Result<std::unique_ptr<Scheme>> read_compressed_tensors(const Json& config,
                                                        const std::string& source);

}  // namespace octavo::quant
