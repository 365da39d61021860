// What a request demands of its answer's form: response_format, structured_outputs, and what they
// are called in other servers and older versions.
#pragma once

#include "octavo/request.h"
#include "server/openai/fields.h"

namespace octavo::server {

// More than one demand is an error.
void read_structured_outputs(Fields& fields, SamplingParams& params);

}  // namespace octavo::server
