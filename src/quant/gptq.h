// GPTQ, with and without act order, v1 and v2 zero points. A row of the table of schemes.
#pragma once

#include <memory>
#include <string>

#include "quant/scheme.h"

namespace octavo::quant {

Result<std::unique_ptr<Scheme>> read_gptq(const Json& config, const std::string& source);

}  // namespace octavo::quant
