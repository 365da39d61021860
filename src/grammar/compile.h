// From what a request demands of an answer to an automaton.
#pragma once

#include "grammar/automaton.h"
#include "octavo/request.h"
#include "octavo/status.h"

namespace octavo::grammar {

// Exactly one field must be set. Errors name it, and what in it octavo does not know: an answer
// that would not be checked in full is refused.
Result<Automaton> compile(const StructuredOutputs& outputs);

}  // namespace octavo::grammar
