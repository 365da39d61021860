// AutoAWQ's GEMM layout. A row of the table of schemes.
#pragma once

#include <memory>
#include <string>

#include "quant/scheme.h"

namespace octavo::quant {

Result<std::unique_ptr<Scheme>> read_awq(const Json& config, const std::string& source);

}  // namespace octavo::quant
