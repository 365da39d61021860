// The self-check of Hopper's matrix unit: one small wgmma with a known answer. It shows that the
// sm_90a code of this build runs on the device, and that operand layout and descriptor are right.
#pragma once

#include "octavo/status.h"

namespace octavo::backends::cuda {

// Runs on `device`, which must be of sm_90. kInternal where the product is wrong or the launch
// fails, with the place or CUDA's own words.
Status probe_wgmma(int device);

}  // namespace octavo::backends::cuda
