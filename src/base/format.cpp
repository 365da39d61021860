#include "base/format.h"

// Defines the functions that fmt/core.h declares, once for the whole program.
#include <fmt/format-inl.h>
