// Functions of the NVIDIA driver, asked of the runtime by name: nothing links the driver's library,
// which a machine without a GPU does not have.
#pragma once

namespace octavo::backends::cuda {

// The function as of the CUDA version (12000 for 12.0), or null where there is no driver that has
// it. Cast it to its type of cudaTypedefs.h.
void* driver_function(const char* name, unsigned version);

}  // namespace octavo::backends::cuda
