// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace octavo {

// The smaller of what the machine has left and what the control group still allows, where files in
// the page cache count as free. 0 where the system does not say.
int64_t available_memory_bytes();

}  // namespace octavo
